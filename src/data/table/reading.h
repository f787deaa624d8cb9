/* reading.h - how fields of a table are read as values: which texts mean that a value is missing, and what stands
 * before the fraction of a number. Fitted with the training data and kept with the model. docs/guide/data.md is
 * the users' page. */
#ifndef TRI_DATA_TABLE_READING_H
#define TRI_DATA_TABLE_READING_H

#include "base/option.h"
#include "data/table/table.h"

typedef struct tri_reading {
    char decimal;            /* '.' or ',' */
    tri_texts
        missing; /* texts that mean "missing", beside an empty field; whoever holds the reading says who owns them */
} tri_reading;

/* What a field is to a column of numbers. */
typedef enum tri_number { TRI_NUMBER_MISSING, TRI_NUMBER_GOOD, TRI_NUMBER_NONE, TRI_NUMBER_TOO_LARGE } tri_number;

/* Without blanks around it. */
tri_field_text tri__field_trim(tri_field_text field);
/* Empty, blank, or one of the texts for missing values. */
int tri__field_missing(const tri_reading *reading, tri_field_text field);
/* A decimal number, blanks around it allowed. "nan", "inf" and hexadecimal are none. */
tri_number tri__field_number(const tri_reading *reading, tri_field_text field, double *value);

/* The mark before the fractions of some columns' numbers. A point, where fields are separated by commas or the table is
 * JSON lines; elsewhere a comma, when a column is made of numbers with commas, and none of numbers with points. */
typedef struct tri_decimal {
    char mark;
    int comma, point;        /* a column that has commas, points; -1: none */
    int unclear;             /* both, or every comma stands before three digits: "1,234" may be a thousand */
} tri_decimal;

tri_status tri__decimal_find(const tri_table *table, const int *columns, int n, const tri_texts *missing,
                             tri_decimal *out);

#endif
