/* inspect_shapes.c - values that look like numbers but are not to training: dates and times, amounts with a currency, a
 * percent sign or thousands separators. They are detected, never converted. */
#include "data/inspect/inspect_parts.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 40 }; /* bytes of such a value */

/* Counts leading digits and removes them. */
static int take_digits(tri_field_text *field) {
    int n = 0;
    for (; field->length && isdigit((unsigned char)field->text[0]); n++) field->text++, field->length--;
    return n;
}

static int take_one_of(tri_field_text *field, const char *bytes) {
    if (!field->length || !field->text[0] || !strchr(bytes, field->text[0])) return 0;
    field->text++, field->length--;
    return 1;
}

/* 12:30, 12:30:05.25, 12:30:05+01:00, 12:30 PM: two digits after the colon, then more time characters. */
static int is_time(tri_field_text field) {
    int hours = take_digits(&field);
    if (hours < 1 || hours > 2 || !take_one_of(&field, ":") || take_digits(&field) != 2) return 0;
    while (field.length && (isdigit((unsigned char)field.text[0]) || strchr(":.+-ZzAaPpMm ", field.text[0])))
        field.text++, field.length--;
    return field.length == 0;
}

/* 2024-05-31, 31.5.2024, 5/31/24; a time may follow. */
static int is_numeric_date(tri_field_text field) {
    int first = take_digits(&field);
    if (!take_one_of(&field, "-/.")) return 0;
    int second = take_digits(&field);
    if (second < 1 || second > 2 || !take_one_of(&field, "-/.")) return 0;
    int third = take_digits(&field), year_first = first == 4 && third >= 1 && third <= 2;
    if (!year_first && !(first >= 1 && first <= 2 && (third == 4 || third == 2))) return 0;
    return field.length == 0 || (take_one_of(&field, "T ") && is_time(field));
}

/* May 31, 2024; 31 May 2024: a month's name, and else digits, blanks, points and commas. */
static int is_named_date(tri_field_text field) {
    static const char *const months[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                         "jul", "aug", "sep", "oct", "nov", "dec"};
    int named = 0, digits = 0;
    while (field.length) {
        size_t n = 0;
        while (n < field.length && isalpha((unsigned char)field.text[n])) n++;
        for (int i = 0; n >= 3 && n <= 9 && i < 12; i++) named += strncasecmp(field.text, months[i], 3) == 0;
        if (n && !named) return 0;
        if (!n) {
            int digit = isdigit((unsigned char)field.text[0]) != 0;
            if (!digit && (!field.text[0] || !strchr(" ,.-/", field.text[0]))) return 0;
            digits += digit, n = 1;
        }
        field.text += n, field.length -= n;
    }
    return named == 1 && digits >= 3;
}

int tri__inspect_date(tri_field_text field) {
    return field.length <= LONGEST && (is_numeric_date(field) || is_time(field) || is_named_date(field));
}

/* A currency's sign, or three capitals. Returns its bytes. */
static size_t currency(tri_field_text field) {
    static const char *const signs[] = {"$", "\xE2\x82\xAC", "\xC2\xA3", "\xC2\xA5",
                                        "\xE2\x82\xB9"}; /* dollar, euro, pound, yen, rupee */
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        size_t n = strlen(signs[i]);
        if (field.length >= n && memcmp(field.text, signs[i], n) == 0) return n;
    }
    size_t n = 0;
    while (n < field.length && isupper((unsigned char)field.text[n])) n++;
    return n == 3 ? 3 : 0;
}

int tri__inspect_amount(tri_field_text field) {
    int marked = 0, grouped = 0, digits = 0;
    if (field.length > LONGEST) return 0;
    take_one_of(&field, "+-");
    size_t before = currency(field);
    field.text += before, field.length -= before;
    while (take_one_of(&field, " +-")) {}
    while (field.length) {
        if (isdigit((unsigned char)field.text[0])) digits++;
        else if (!digits || !field.text[0] || !strchr(".,' ", field.text[0])) break;
        else grouped += field.text[0] != ' ';
        field.text++, field.length--;
    }
    if (field.length && (field.text[0] == '%' || currency(field))) {
        size_t n = field.text[0] == '%' ? 1 : currency(field);
        field.text += n, field.length -= n, marked = 1;
    }
    return digits && field.length == 0 && (before || marked || grouped);
}
