/* value_form.c - finds the form of a column's values and reads by it. Every value is tried with both decimal marks and
 * as a date in all orders; a reading that fits all values which are amounts or dates at all is the column's. Where two
 * fit and give different numbers, or none fits all, there is no form: guessing would be wrong without notice. */
#include "data/table/value_form.h"

enum { EXAMPLE = 40 };
static const char marks[2] = {'.', ','};
static const char *const mark_words[2] = {"point", "comma"};

/* An amount, or a plain number. */
static int read_amount(tri_field_text field, char mark, double *value, tri_field_text *unit) {
    *unit = (tri_field_text){.text = "", .length = 0};
    if (tri__field_number(&(tri_reading){.decimal = mark}, field, value) == TRI_NUMBER_GOOD) return 1;
    return !field.number && tri__amount_read(field, mark, value, unit); /* a number by its type has no thousands */
}

/* A number without a unit is in that of the column, but where this is %: 0.12 may be 12 %. */
static int fits_unit(const char *unit, tri_field_text given, double value) {
    if (!given.length) return strcmp(unit, "%") != 0 || value == 0;
    return strlen(unit) == given.length && memcmp(unit, given.text, given.length) == 0;
}

static tri_number read_date(const tri_value_form *form, tri_field_text field, double *value) {
    tri_date date;
    if (!tri__date_read(field, form->order, &date) || date.has_day == form->clock) return TRI_NUMBER_NONE;
    if (date.zoned != form->zoned) return TRI_NUMBER_NONE;
    *value = tri__date_number(&date, form->part);
    return TRI_NUMBER_GOOD;
}

int tri__boolean_read(tri_field_text field, double *value) {
    static const char *const words[] = {"no", "yes", "false", "true", "f", "t", "n", "y", "off", "on", "0", "1"};
    char form[TRI_CANONICAL_BYTES];
    field = tri__field_canonical(&(tri_reading){.decimal = '.'}, field, form);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        *value = (double)(i % 2);
        if (strlen(words[i]) == field.length && !strncasecmp(words[i], field.text, field.length)) return 1;
    }
    return 0;
}

tri_number tri__form_number(const tri_value_form *form, const tri_reading *reading, tri_field_text field,
                            double *value) {
    tri_field_text unit;
    if (form->kind == TRI_FORM_PLAIN) return tri__field_number(reading, field, value);
    if (tri__field_missing(reading, field)) return TRI_NUMBER_MISSING;
    if (form->kind == TRI_FORM_HASHED) return TRI_NUMBER_NONE;
    if (form->kind == TRI_FORM_BOOLEAN) return tri__boolean_read(field, value) ? TRI_NUMBER_GOOD : TRI_NUMBER_NONE;
    if (form->kind == TRI_FORM_DATE) return field.number ? TRI_NUMBER_NONE : read_date(form, field, value);
    if (!read_amount(field, form->mark, value, &unit)) return TRI_NUMBER_NONE;
    return fits_unit(form->unit, unit, *value) ? TRI_NUMBER_GOOD : TRI_NUMBER_NONE;
}

void tri__form_numbers(const tri_table *table, int64_t first, int64_t count, int column, const tri_value_form *form,
                       const tri_reading *reading, tri_number *number, double *value) {
    static const tri_field_text no_unit = {.text = "", .length = 0};
    int given = tri__table_numbers(table, first, count, column, value);
    for (int64_t i = 0; i < count; i++)
        if (!given || isinf(value[i]))
            number[i] = tri__form_number(form, reading, tri__table_field(table, first + i, column), &value[i]);
        else if (isnan(value[i])) number[i] = TRI_NUMBER_MISSING;
        else if (form->kind == TRI_FORM_AMOUNT)
            number[i] = fits_unit(form->unit, no_unit, value[i]) ? TRI_NUMBER_GOOD : TRI_NUMBER_NONE;
        else if (form->kind == TRI_FORM_BOOLEAN)
            number[i] = value[i] == 0 || value[i] == 1 ? TRI_NUMBER_GOOD : TRI_NUMBER_NONE;
        else number[i] = form->kind == TRI_FORM_PLAIN ? TRI_NUMBER_GOOD : TRI_NUMBER_NONE;
}

const char *tri__number_words(const tri_value_form *form, tri_number number, const tri_reading *reading) {
    static const char *const dates[TRI_DATE_ORDERS] = {
        [TRI_DATE_YMD] = "is not a date such as 2024-12-31", [TRI_DATE_DMY] = "is not a date such as 31.12.2024",
        [TRI_DATE_MDY] = "is not a date such as 12/31/2024"};
    if (number == TRI_NUMBER_TOO_LARGE) return "is too large or too long for a number";
    if (number == TRI_NUMBER_INFINITE)
        return "is infinite: a column takes finite numbers only (missing values: empty, or in --missing)";
    if (form->kind == TRI_FORM_BOOLEAN)
        return "is not a boolean: yes or no, true or false, t or f, y or n, on or off, 1 or 0";
    if (form->kind == TRI_FORM_DATE && form->clock) return "is not a time of day such as 08:30";
    if (form->kind == TRI_FORM_DATE && form->zoned)
        return "is not a date and time with an offset from UTC, as in training: 2024-12-31T08:30Z";
    if (form->kind == TRI_FORM_DATE) return dates[form->order];
    if (form->kind == TRI_FORM_AMOUNT && strcmp(form->unit, "%") == 0)
        return "is not a number with a percent sign, as in training";
    if (form->kind == TRI_FORM_AMOUNT)
        return form->mark == ',' ? "is not an amount with a decimal comma, in the currency of training or without one"
                                 : "is not an amount with a decimal point, in the currency of training or without one";
    return reading->decimal == ','
               ? "is not a decimal number with a comma (points: --decimal-mark point; missing values: empty, or in "
                 "--missing; categories: cat_field_list)"
               : "is not a decimal number (decimal commas: --decimal-mark comma; missing values: empty, or in "
                 "--missing; "
                 "categories: cat_field_list)";
}

const char *tri__form_words(const tri_value_form *form, char out[static TRI_FORM_WORDS]) {
    static const char *const orders[TRI_DATE_ORDERS] = {"", "year-month-day", "day.month.year", "month/day/year"};
    const char *mark = mark_words[form->mark == ','];
    out[0] = 0;
    if (form->kind == TRI_FORM_AMOUNT && form->unit[0])
        snprintf(out, TRI_FORM_WORDS, "amounts in %s with a decimal %s", form->unit, mark);
    else if (form->kind == TRI_FORM_AMOUNT)
        snprintf(out, TRI_FORM_WORDS, "numbers with thousands and a decimal %s", mark);
    else if (form->kind == TRI_FORM_DATE && form->clock) snprintf(out, TRI_FORM_WORDS, "times of day");
    else if (form->kind == TRI_FORM_DATE)
        snprintf(out, TRI_FORM_WORDS, "dates %s%s", orders[form->order], form->zoned ? ", in UTC" : "");
    else if (form->kind == TRI_FORM_BOOLEAN) snprintf(out, TRI_FORM_WORDS, "yes or no");
    else if (form->kind == TRI_FORM_HASHED)
        snprintf(out, TRI_FORM_WORDS, "character n-grams in %d buckets", form->buckets);
    return out;
}

/* What was seen of a column. */
typedef struct seen {
    int64_t filled, plain;
    int64_t amounts, mark[2];         /* with either mark, with each */
    int64_t unclear, thousands[2];    /* other numbers by each; of those, the ones that have thousands by it */
    int64_t bare;                     /* without a unit, and not 0 */
    char unit[2][TRI_UNIT_BYTES];     /* the first two that differ */
    char only_mark[2][EXAMPLE + 8], either_mark[EXAMPLE + 8];
    int64_t dates, order[TRI_DATE_ORDERS]; /* in any order, in each */
    int64_t differ[TRI_DATE_ORDERS][TRI_DATE_ORDERS]; /* another day in each of the two */
    int64_t days, zoned, naive;
    char not_order[TRI_DATE_ORDERS][EXAMPLE + 8], either_order[EXAMPLE + 8];
} seen;

static void keep_example(tri_field_text field, char out[static EXAMPLE + 8]) {
    if (!out[0]) snprintf(out, EXAMPLE + 8, "%s", tri__field_quoted(field, (char[64]){0}));
}

static void see_unit(seen *s, tri_field_text unit, double value) {
    s->bare += !unit.length && value != 0;
    for (int i = 0; i < 2 && unit.length; i++) {
        if (!s->unit[i][0]) memcpy(s->unit[i], unit.text, unit.length);
        if (fits_unit(s->unit[i], unit, value)) return;
    }
}

static void see_amount(seen *s, tri_field_text field) {
    double value[2] = {0};
    tri_field_text unit[2];
    int ok[2];
    for (int m = 0; m < 2; m++) ok[m] = read_amount(field, marks[m], &value[m], &unit[m]);
    if (!ok[0] && !ok[1]) return;
    s->amounts++;
    for (int m = 0; m < 2; m++) {
        s->mark[m] += ok[m];
        if (ok[m] && !ok[1 - m]) keep_example(field, s->only_mark[m]);
    }
    if (ok[0] && ok[1] && value[0] != value[1]) {
        s->unclear++, s->thousands[fabs(value[1]) > fabs(value[0])]++;
        keep_example(field, s->either_mark);
    }
    see_unit(s, unit[!ok[0]], value[!ok[0]]);
}

static void see_date(seen *s, tri_field_text field) {
    tri_date date[TRI_DATE_ORDERS];
    int ok[TRI_DATE_ORDERS] = {0}, any = 0;
    for (int o = TRI_DATE_YMD; o < TRI_DATE_ORDERS; o++) {
        ok[o] = tri__date_read(field, (tri_date_order)o, &date[o]);
        if (ok[o]) any = o;
        for (int other = TRI_DATE_YMD; ok[o] && other < o; other++)
            if (ok[other] && date[other].days != date[o].days)
                s->differ[other][o]++, keep_example(field, s->either_order);
    }
    if (!any) return;
    s->dates++;
    for (int o = TRI_DATE_YMD; o < TRI_DATE_ORDERS; o++) {
        s->order[o] += ok[o];
        if (!ok[o]) keep_example(field, s->not_order[o]);
    }
    s->days += date[any].has_day;
    s->zoned += date[any].zoned, s->naive += !date[any].zoned;
}

static void say_unclear(const seen *s, tri_form_found *out) {
    snprintf(out->why, sizeof out->why,
             "has numbers such as %.48s, which may have thousands or a fraction: say which with --decimal-mark point "
             "or --decimal-mark comma", s->either_mark);
}

/* Of a column of plain numbers, a few that are written otherwise are bad ones, but for thousands. */
static void settle_mostly_plain(const seen *s, const tri_form_spec *spec, tri_form_found *out) {
    int other = out->form.mark != spec->reading->decimal;
    if (!out->why[0] && !other) return;
    if (!out->why[0] && s->unclear && !spec->decimal) say_unclear(s, out);
    else *out = (tri_form_found){0};
}

static void settle_amount(const seen *s, const tri_form_spec *spec, tri_form_found *out) {
    int hinted = s->mark[0] == s->mark[1] && spec->hint && s->thousands[spec->hint == ','] == s->unclear;
    char given = spec->decimal ? spec->decimal : hinted ? spec->hint : 0;
    int mark = given ? given == ',' : s->mark[1] > s->mark[0];
    out->form = (tri_value_form){.kind = TRI_FORM_AMOUNT, .mark = marks[mark]};
    memcpy(out->form.unit, s->unit[0], TRI_UNIT_BYTES);
    out->wrong = s->filled - s->mark[mark];
    if (s->mark[mark] < s->amounts && s->mark[!mark] < s->amounts)
        snprintf(out->why, sizeof out->why,
                 "has numbers with decimal points (%.48s) and with decimal commas (%.48s): write all one way, or list "
                 "it in cat_field_list", s->only_mark[0], s->only_mark[1]);
    else if (s->mark[mark] < s->amounts)
        snprintf(out->why, sizeof out->why, "has numbers such as %.48s, which --decimal-mark %s does not read",
                 s->only_mark[!mark], mark_words[mark]);
    else if (!given && s->mark[0] == s->mark[1] && s->unclear) say_unclear(s, out);
    else if (s->unit[1][0])
        snprintf(out->why, sizeof out->why,
                 "has amounts in %s and in %s: make one of them, or list it in cat_field_list", s->unit[0], s->unit[1]);
    else if (strcmp(s->unit[0], "%") == 0 && s->bare)
        snprintf(out->why, sizeof out->why,
                 "has numbers with and without a percent sign: write all one way, or list it in cat_field_list");
}

static void settle_date(const seen *s, const tri_form_spec *spec, tri_form_found *out) {
    int best = TRI_DATE_YMD, unclear = 0;
    for (int o = TRI_DATE_DMY; o < TRI_DATE_ORDERS; o++)
        if (s->order[o] > s->order[best]) best = o;
    for (int a = TRI_DATE_YMD; a < TRI_DATE_ORDERS; a++)
        for (int b = a + 1; b < TRI_DATE_ORDERS; b++)
            unclear |= s->order[a] == s->order[best] && s->order[b] == s->order[best] && s->differ[a][b];
    if (spec->order) best = (int)spec->order, unclear = 0;
    out->form = (tri_value_form){.kind = TRI_FORM_DATE, .order = (tri_date_order)best, .zoned = s->zoned > 0,
                                 .clock = !s->days, .part = s->days ? TRI_PART_DAYS : TRI_PART_HOUR};
    out->wrong = s->filled - s->order[best];
    if (s->days && s->days < s->dates)
        snprintf(out->why, sizeof out->why, "has dates, and times of day without a date");
    else if (s->order[best] < s->dates && spec->order)
        snprintf(out->why, sizeof out->why, "has dates such as %.48s, which --date-order %s does not read",
                 s->not_order[best], tri__date_orders[best]);
    else if (s->order[best] < s->dates)
        snprintf(out->why, sizeof out->why,
                 "has dates in different orders (%.48s, %.48s): write all one way, best as 2024-12-31",
                 s->not_order[TRI_DATE_DMY], s->not_order[TRI_DATE_MDY]);
    else if (unclear)
        snprintf(out->why, sizeof out->why,
                 "has dates such as %.48s, and every one can be read in several orders: say which with --date-order "
                 "dmy, mdy or ymd", s->either_order);
    else if (s->zoned && s->naive)
        snprintf(out->why, sizeof out->why, "has times with an offset from UTC and without one: write all one way");
}

/* Parts that differ among the rows that count; days stand for all of them. */
static void find_parts(const tri_table *table, int column, const tri_form_spec *spec, tri_form_found *out) {
    double first[TRI_DATE_PARTS], value;
    int any = 0;
    tri_value_form form = out->form;
    out->parts = 1u << (form.clock ? TRI_PART_HOUR : TRI_PART_DAYS);
    for (int64_t row = 0; row < tri__table_rows(table) && !form.clock; row++) {
        tri_field_text field = tri__table_field(table, row, column);
        tri_date date;
        int counts = !(spec->part && spec->part[row]) &&
                     tri__form_number(&form, spec->reading, field, &value) == TRI_NUMBER_GOOD;
        if (counts && tri__date_read(field, form.order, &date)) {
            for (int p = 0; p < TRI_DATE_PARTS; p++) {
                value = tri__date_number(&date, (tri_date_part)p);
                if (!any) first[p] = value;
                else if (value != first[p]) out->parts |= 1u << p;
            }
            any = 1;
        }
        tri__rows_passed(table, row);
    }
}

tri_status tri__form_find(const tri_table *table, int column, const tri_form_spec *spec, tri_form_found *out) {
    enum { ENOUGH = 2000 }; /* values: a column of which half are neither is not looked at further */
    seen s = {0};
    *out = (tri_form_found){0};
    for (int64_t row = 0; row < tri__table_rows(table); row++) {
        tri_field_text field = tri__table_field(table, row, column);
        double value;
        if (!tri__field_missing(spec->reading, field)) {
            s.filled++;
            s.plain += tri__field_number(spec->reading, field, &value) == TRI_NUMBER_GOOD;
            see_amount(&s, field);
            see_date(&s, field);
        }
        tri__rows_passed(table, row);
        if (s.filled >= ENOUGH && 2 * (s.amounts + s.dates) < s.filled) return TRI_OK;
    }
    TRI_TRY(tri__table_check(table));
    if (10 * s.dates >= 9 * s.filled && s.dates) settle_date(&s, spec, out);
    else if (10 * s.amounts >= 9 * s.filled && s.amounts > s.plain) settle_amount(&s, spec, out);
    if (out->form.kind == TRI_FORM_AMOUNT && 10 * s.plain >= 9 * s.filled) settle_mostly_plain(&s, spec, out);
    if (out->form.kind == TRI_FORM_DATE && !out->why[0]) find_parts(table, column, spec, out);
    return TRI_OK;
}
