/* reading.h - how fields of a table are read as values: the texts that mean a missing value, and the decimal mark of
 * numbers. Fitted on the training data and stored with the model. docs/guide/data.md is the user's guide. */
#pragma once

#include "base/option.h"
#include "data/table/table.h"

typedef struct tri_reading {
    char decimal;            /* '.' or ',', of numbers that are text; those that are numbers by type have a point */
    tri_texts missing; /* texts that mean "missing", in addition to an empty field; the struct that contains the reading
                          defines ownership */
} tri_reading;

/* A field's kind in a numeric column. */
typedef enum tri_number {
    TRI_NUMBER_MISSING,
    TRI_NUMBER_GOOD,
    TRI_NUMBER_NONE,
    TRI_NUMBER_TOO_LARGE,
    TRI_NUMBER_INFINITE
} tri_number;

/* Without blanks around it. */
tri_field_text tri__field_trim(tri_field_text field);
/* Whether it is one of the texts. */
int tri__field_is_one_of(const tri_texts *texts, tri_field_text field);
/* Empty, blank, or one of the texts for missing values. */
int tri__field_missing(const tri_reading *reading, tri_field_text field);
/* A decimal number, blanks around it allowed. "nan" and hexadecimal are not numbers; "inf" and "Infinity" are
 * INFINITE. */
tri_number tri__field_number(const tri_reading *reading, tri_field_text field, double *value);
/* canonical.c: a category or label in the one form that equal values have in every format: booleans are true and false,
 * equal numbers have the same digits, both in `out`; any other text is the field's own, without blanks around it. */
enum { TRI_CANONICAL_BYTES = 96 };
tri_field_text tri__field_canonical(const tri_reading *reading, tri_field_text field,
                                    char out[static TRI_CANONICAL_BYTES]);

/* The decimal mark of some columns' numbers. A point if fields are separated by commas or the table is JSON lines; else
 * a comma if some column consists of numbers with commas, and none of numbers with points; where both occur, the one
 * that must mark a fraction in some number, if it is one: the other then separates thousands. */
typedef struct tri_decimal {
    char mark;
    int comma, point;        /* a column that has commas, points; -1: none */
    int unclear;             /* both mark fractions, or the only one may separate thousands: it always precedes three
                                digits, as in "1,234"; of points, beside whole numbers */
    char known;              /* the mark that some number's fraction has, and no other number's; 0: none */
} tri_decimal;

tri_status tri__decimal_find(const tri_table *table, const int *columns, int n, const tri_texts *missing,
                             tri_decimal *out);

/* Called in a pass over all rows, after `row`: periodically lets the table free the text of earlier rows. */
void tri__rows_passed(const tri_table *table, int64_t row);

/* A field's text in quotes, long ones cut at a character; `out` is returned. */
const char *tri__field_quoted(tri_field_text field, char out[static 64]);
