/* json_numbers.c - short numbers, members of JSON objects, and values as JSON text in a stream. */
#include "report/text/json_numbers.h"

const char *tri__text_short(double x, char out[static 32]) {
    static const char *const units[] = {"", "k", "M", "G", "T"};
    int unit = 0;
    while (x >= 999.5 && unit < 4) x /= 1000, unit++;
    snprintf(out, 32, "%.*f%s", unit ? 1 : x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x, units[unit]);
    return out;
}

double tri__real_in(const tri_json *object, const char *key) {
    const tri_json *value = tri__json_get(object, key);
    return tri__json_is_number(value) ? tri__json_number_value(value) : NAN;
}

const char *tri__shown_in(const tri_json *object, const char *key) {
    const char *value = tri__text_in(object, key);
    return value ? value : "";
}

void tri__put_real(FILE *out, double value) {
    if (isfinite(value)) fprintf(out, "%.9g", value);
    else fputs("null", out);
}

void tri__put_field(FILE *out, const char *key, double value) {
    fprintf(out, ",\"%s\":", key);
    tri__put_real(out, value);
}

void tri__put_text(FILE *out, const char *text) {
    size_t length = strlen(text), at = 0;
    fputc('"', out);
    while (at < length) {
        size_t start = at;
        int32_t code = tri__utf8_next(text, length, &at);
        if (code < 0) fputs("\\ufffd", out);
        else if (code == '"' || code == '\\') fprintf(out, "\\%c", (int)code);
        else if (code < 0x20) fprintf(out, "\\u%04x", (unsigned)code);
        else fwrite(text + start, 1, at - start, out);
    }
    fputc('"', out);
}

int tri__memstream_close(FILE *stream, char *const *data) {
    int lost = ferror(stream);
    return !fclose(stream) && !lost && *data; /* out of memory, fclose may succeed without data */
}
