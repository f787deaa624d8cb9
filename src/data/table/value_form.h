/* value_form.h - columns of numbers that are not written as plain decimal numbers: amounts ("$1,234.50", "1.234,50 €",
 * "12 %") and dates ("2024-12-31T08:30Z", "31.12.2024"). A column's form is found in all its values: what most of them
 * allow decides, what stays ambiguous is refused. Booleans ("yes") and hashed names and codes are forms that the
 * configuration asks for. The form is kept with the model, which reads new values by it. docs/guide/data.md is the
 * user's guide. */
#pragma once

#include "data/table/reading.h"

enum { TRI_UNIT_BYTES = 8, TRI_FORM_WORDS = 240 };

typedef enum tri_form_kind {
    TRI_FORM_PLAIN,
    TRI_FORM_AMOUNT,
    TRI_FORM_DATE,
    TRI_FORM_BOOLEAN,
    TRI_FORM_HASHED /* names and codes: not one number, but several (tri__grams_count) */
} tri_form_kind;

/* Which of a date's three numbers is what. A year of four digits in front, and a month's name, are read in any
 * order. */
typedef enum tri_date_order { TRI_DATE_AUTO, TRI_DATE_YMD, TRI_DATE_DMY, TRI_DATE_MDY, TRI_DATE_ORDERS } tri_date_order;

/* The numbers that a date becomes, each a column of the model. */
typedef enum tri_date_part {
    TRI_PART_DAYS,    /* since 1970-01-01, with the time of day as a fraction */
    TRI_PART_YEAR,
    TRI_PART_MONTH,   /* from 1 */
    TRI_PART_DAY,     /* of the month, from 1 */
    TRI_PART_WEEKDAY, /* Monday is 1 */
    TRI_PART_HOUR,    /* of the day, with minutes and seconds as a fraction */
    TRI_DATE_PARTS
} tri_date_part;

typedef struct tri_value_form {
    tri_form_kind kind;
    char mark;                 /* AMOUNT: the decimal mark, '.' or ',' */
    char unit[TRI_UNIT_BYTES]; /* AMOUNT: its currency, or "%"; "": none */
    tri_date_order order;      /* DATE: never AUTO */
    int zoned;                 /* DATE: times have an offset from UTC; parts are those of UTC */
    int clock;                 /* DATE: times of day, without a date: its part is the hour */
    tri_date_part part;        /* DATE: of this column of the model */
    int buckets;               /* HASHED: how many numbers a value becomes */
} tri_value_form;

/* An amount in the numbers of this decimal mark: a sign, a currency or % on either side, thousands in groups that a
 * comma or point (the one that is not the mark), an apostrophe or a blank separates; negative also in brackets. A plain
 * number is one too. 0: it is none. unit: its currency or %; empty: none. */
int tri__amount_read(tri_field_text field, char mark, double *value, tri_field_text *unit);

typedef struct tri_date {
    int has_day, has_time, zoned, short_year;
    int year, month, day; /* of UTC where zoned */
    int64_t days;         /* since 1970-01-01 */
    double seconds;       /* of the day */
} tri_date;
/* A date, a time, or both. 0: it is none in this order. */
int tri__date_read(tri_field_text field, tri_date_order order, tri_date *out);
double tri__date_number(const tri_date *date, tri_date_part part);
/* yes, true, t, y, on, 1: 1; no, false, f, n, off, 0: 0, in any case. 0: it is none of them. */
int tri__boolean_read(tri_field_text field, double *value);
/* grams.c: counts a text's character n-grams in to [buckets], of which the length becomes 1; all 0 without any. */
void tri__grams_count(tri_field_text text, int buckets, float *to);

/* A field as the form's number. */
tri_number tri__form_number(const tri_value_form *form, const tri_reading *reading, tri_field_text field,
                            double *value);
/* Of rows [first, first + count) of a table: number [count], value [count]; without their texts where the table has
 * numbers. */
void tri__form_numbers(const tri_table *table, int64_t first, int64_t count, int column, const tri_value_form *form,
                       const tri_reading *reading, tri_number *number, double *value);
/* Why a field is bad, as a phrase that follows its text. It lasts. */
const char *tri__number_words(const tri_value_form *form, tri_number number, const tri_reading *reading);
/* "numbers with $ and a decimal point", "dates (day, month, year)"; "": plain. `out` is returned. */
const char *tri__form_words(const tri_value_form *form, char out[static TRI_FORM_WORDS]);

/* The form of a table's column. PLAIN: its values have no other. */
typedef struct tri_form_found {
    tri_value_form form;
    int64_t wrong;            /* values that are there and have another form */
    unsigned parts;           /* DATE: bits of the parts that differ among the rows that count */
    char why[TRI_FORM_WORDS]; /* why it cannot be read, though it is an amount or date, as a phrase that follows the
                                 column's name; "": it can */
} tri_form_found;

typedef struct tri_form_spec {
    const tri_reading *reading;
    char decimal;         /* as the user gave it; 0: not given */
    char hint;            /* the mark of other columns, by which "1,234" may have thousands here; 0: unknown */
    tri_date_order order; /* as the user gave it; AUTO: not given */
    const uint8_t *part;  /* [rows] rows that count for parts have the value 0; NULL: all do */
} tri_form_spec;
tri_status tri__form_find(const tri_table *table, int column, const tri_form_spec *spec, tri_form_found *out);
/* Whether a value may be a date; an amount with more than digits and a decimal point. */
int tri__is_date(tri_field_text field);
int tri__is_amount(tri_field_text field);

extern const char *const tri__date_orders[TRI_DATE_ORDERS]; /* "auto", "ymd", ... */
extern const char *const tri__date_part_names[TRI_DATE_PARTS];
