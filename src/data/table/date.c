/* date.c - dates and times of day as people and programs write them:
 *
 *   2024-12-31, 2024/12/31    a year of four digits in front
 *   31.12.2024, 12/31/2024    days or months in front, by the order that is asked for; points only separate days first
 *   31 Dec 2024, December 31, 2024, Tue, 31 Dec 2024
 *   ... 08:30, 8:30 PM, T08:30:15.250, T08:30Z, 08:30:15+01:00
 *
 * Years of two digits are 1969 to 2068. Days are counted in the Gregorian calendar (Howard Hinnant, "chrono-compatible
 * low-level date algorithms"). */
#include "data/table/value_form.h"
#include "data/table/value_text.h"

#include <ctype.h>

enum { LONGEST = 48, DAY_SECONDS = 86400 };

const char *const tri__date_orders[TRI_DATE_ORDERS] = {"auto", "ymd", "dmy", "mdy"};
const char *const tri__date_part_names[TRI_DATE_PARTS] = {"days", "year", "month", "day", "weekday", "hour"};

typedef tri_field_text text;

static int take_one_of(text *f, const char *bytes) {
    if (!f->length || !f->text[0] || !strchr(bytes, f->text[0])) return 0;
    f->text++, f->length--;
    return 1;
}

/* A number of `least` to `most` digits, which no further digit follows; -1: none. *n: how many. */
static int take_number(text *f, int least, int most, int *n) {
    int value = 0;
    for (*n = 0; f->length && isdigit((unsigned char)f->text[0]) && *n < 9; ++*n, f->text++, f->length--)
        value = 10 * value + (f->text[0] - '0');
    return *n >= least && *n <= most ? value : -1;
}

/* The place in a list of names, of which three letters may stand for all; -1: none. */
static int take_name(text *f, const char *const *names, int count) {
    size_t n = 0;
    while (n < f->length && isalpha((unsigned char)f->text[n])) n++;
    for (int i = 0; i < count && n >= 3; i++) {
        int whole = strlen(names[i]) == n || n == 3 || (n == 4 && strncasecmp(f->text, "sept", 4) == 0);
        if (!whole || strncasecmp(f->text, names[i], n)) continue;
        f->text += n, f->length -= n;
        return i;
    }
    return -1;
}

static int64_t days_of(int year, int month, int day) {
    int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void set_days(tri_date *d, int64_t days) {
    d->year = (int)tri__date_of(days, &d->month, &d->day), d->days = days;
}

/* A day of the calendar. year_digits: 2 or 4. */
static int set_date(tri_date *d, int year, int year_digits, int month, int day) {
    static const int longest[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year_digits == 2) year += year < 69 ? 2000 : 1900, d->short_year = 1;
    if (month < 1 || month > 12 || day < 1 || day > longest[month - 1] || year < 1) return 0;
    int leap = year % 4 == 0 && (year % 100 || year % 400 == 0);
    if (month == 2 && day == 29 && !leap) return 0;
    d->has_day = 1, d->year = year, d->month = month, d->day = day, d->days = days_of(year, month, day);
    return 1;
}

/* Three numbers. */
static int take_numeric(text *f, tri_date_order order, tri_date *d) {
    int n[3], v[3];
    char between = 0;
    for (int i = 0; i < 3; i++) {
        v[i] = take_number(f, 1, 4, &n[i]);
        if (v[i] < 0 || (i < 2 && (!f->length || (between && *f->text != between)))) return 0;
        if (i < 2) between = *f->text;
        if (i < 2 && !take_one_of(f, "-/.")) return 0;
    }
    if (n[1] > 2) return 0;
    if (n[0] == 4) return n[2] <= 2 && set_date(d, v[0], 4, v[1], v[2]);
    if (n[0] > 2 || (n[2] != 4 && n[2] != 2)) return 0;
    if (order == TRI_DATE_YMD) return n[0] == 2 && n[2] == 2 && set_date(d, v[0], 2, v[1], v[2]);
    if (order == TRI_DATE_MDY) return between != '.' && set_date(d, v[2], n[2], v[0], v[1]);
    return set_date(d, v[2], n[2], v[1], v[0]);
}

static void skip_blanks(text *f) {
    while (take_one_of(f, " ")) {}
}

/* A month by its name, behind the day or before it; a day of the week may come first. */
static int take_named(text *f, tri_date *d) {
    static const char *const months[] = {"january", "february", "march",     "april",   "may",      "june",
                                         "july",    "august",   "september", "october", "november", "december"};
    static const char *const weekdays[] = {"monday", "tuesday",  "wednesday", "thursday",
                                           "friday", "saturday", "sunday"};
    int n, day = -1;
    if (take_name(f, weekdays, 7) >= 0) (void)take_one_of(f, ","), skip_blanks(f);
    if (f->length && isdigit((unsigned char)f->text[0])) {
        day = take_number(f, 1, 2, &n);
        (void)take_one_of(f, ".");
        if (day < 0 || (!take_one_of(f, "-/") && !(f->length && *f->text == ' '))) return 0;
        skip_blanks(f);
    }
    int month = take_name(f, months, 12);
    if (month < 0) return 0;
    (void)take_one_of(f, ".");
    if (day >= 0 && !take_one_of(f, "-/")) skip_blanks(f);
    if (day < 0) {
        skip_blanks(f);
        day = take_number(f, 1, 2, &n);
        if (day < 0 || !take_one_of(f, ", ")) return 0;
        skip_blanks(f);
    }
    int year = take_number(f, 2, 4, &n);
    return year >= 0 && n != 3 && set_date(d, year, n, month + 1, day);
}

/* Z, UTC, GMT, +01:00, +0100, +01: seconds before UTC. 0: something else is there. */
static int take_zone(text *f, int *zoned, int *offset) {
    int n;
    *zoned = *offset = 0;
    skip_blanks(f);
    if (!f->length) return 1;
    *zoned = 1;
    if (f->length == 1 && take_one_of(f, "Zz")) return 1;
    if (f->length == 3 && (!strncasecmp(f->text, "UTC", 3) || !strncasecmp(f->text, "GMT", 3))) {
        f->length = 0;
        return 1;
    }
    int negative = *f->text == '-';
    if (!take_one_of(f, "+-")) return 0;
    int hours = take_number(f, 2, 4, &n), minutes = 0;
    if (hours < 0 || n == 3) return 0;
    if (n == 4) minutes = hours % 100, hours /= 100;
    else if (take_one_of(f, ":")) minutes = take_number(f, 2, 2, &n);
    if (hours > 23 || minutes < 0 || minutes > 59 || f->length) return 0;
    *offset = (negative ? -1 : 1) * (60 * hours + minutes) * 60;
    return 1;
}

/* All that is left, a time of day. */
static int take_time(text *f, tri_date *d) {
    int n, offset, hour = take_number(f, 1, 2, &n), seconds = 0;
    double part = 0, scale = 0.1;
    if (hour < 0 || hour > 24 || !take_one_of(f, ":")) return 0;
    int minute = take_number(f, 2, 2, &n);
    if (minute < 0 || minute > 59) return 0;
    if (take_one_of(f, ":")) {
        seconds = take_number(f, 2, 2, &n);
        if (seconds < 0 || seconds > 60) return 0;
        if (take_one_of(f, ".,")) {
            if (!f->length || !isdigit((unsigned char)*f->text)) return 0;
            for (; f->length && isdigit((unsigned char)*f->text); f->text++, f->length--, scale /= 10)
                part += scale * (*f->text - '0');
        }
    }
    text noon = *f;
    skip_blanks(&noon);
    if (noon.length >= 2 && strchr("AaPp", noon.text[0]) && strchr("Mm", noon.text[1])) {
        if (hour < 1 || hour > 12) return 0;
        hour = hour % 12 + 12 * (noon.text[0] == 'P' || noon.text[0] == 'p');
        *f = noon, f->text += 2, f->length -= 2;
    }
    if (hour == 24 || !take_zone(f, &d->zoned, &offset)) return 0;
    d->has_time = 1;
    d->seconds = hour * 3600 + minute * 60 + seconds + part - offset;
    int64_t more = d->seconds < 0 ? -1 : d->seconds >= DAY_SECONDS;
    d->seconds -= (double)(more * DAY_SECONDS);
    if (d->has_day && more) set_days(d, d->days + more);
    return 1;
}

int tri__date_read(tri_field_text field, tri_date_order order, tri_date *out) {
    text f = tri__field_trim(field), begin = f;
    *out = (tri_date){0};
    if (!f.length || f.length > LONGEST) return 0;
    if (take_time(&f, out)) return 1;
    *out = (tri_date){0}, f = begin;
    if (!take_numeric(&f, order, out)) {
        *out = (tri_date){0}, f = begin;
        if (!take_named(&f, out)) return 0;
    }
    if (!f.length) return 1;
    if (!take_one_of(&f, "Tt, ")) return 0;
    skip_blanks(&f);
    return take_time(&f, out);
}

double tri__date_number(const tri_date *d, tri_date_part part) {
    switch (part) {
    case TRI_PART_YEAR: return d->year;
    case TRI_PART_MONTH: return d->month;
    case TRI_PART_DAY: return d->day;
    case TRI_PART_WEEKDAY: return (double)(((d->days + 3) % 7 + 7) % 7 + 1); /* day 0 was a Thursday */
    case TRI_PART_HOUR: return d->seconds / 3600;
    default: return (double)d->days + d->seconds / DAY_SECONDS;
    }
}

int tri__is_date(tri_field_text field) {
    tri_date date;
    for (tri_date_order order = TRI_DATE_YMD; order < TRI_DATE_ORDERS; order++)
        if (tri__date_read(field, order, &date)) return 1;
    return 0;
}
