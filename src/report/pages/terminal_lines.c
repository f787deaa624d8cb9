/* terminal_lines.c - lines of a screen: their width, colours, bars and curves. */
#include "report/pages/terminal_lines.h"

#include "data/text/unicode.h"

tri_buffer *tri__lines_new(tri_lines *lines, int rank) {
    if (lines->n < TRI_SCREEN_LINES) lines->line[lines->n++] = (typeof(lines->line[0])){.rank = rank};
    return &lines->line[lines->n - 1].text;
}

/* C0 and C1 controls (U+009B begins an escape sequence), and marks that change the direction of writing. */
static int is_control(int32_t code) {
    return code < ' ' || (code >= 0x7F && code < 0xA0) || (code >= 0x200B && code <= 0x200F) ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

void tri__lines_text(tri_buffer *line, const char *text, int width) {
    size_t length = text ? strlen(text) : 0, at = 0, cut = 0;
    int columns = 0, cut_columns = 0;
    TRI_OWNED(tri__buffer_free) tri_buffer clean = {0};
    while (at < length) {
        size_t begin = at;
        int32_t code = tri__utf8_next(text, length, &at);
        int more = code < 0 || is_control(code) ? 1 : tri__char_width(code);
        if (columns + more > width) {
            clean.size = cut;
            tri__buffer_put(&clean, "%.*s", width - cut_columns < 3 ? width - cut_columns : 3, "...");
            break;
        }
        if (code < 0) tri__buffer_add(&clean, "?", 1);
        else if (is_control(code)) tri__buffer_add(&clean, " ", 1);
        else tri__buffer_add(&clean, text + begin, at - begin);
        columns += more;
        if (columns <= width - 3) cut = clean.size, cut_columns = columns;
    }
    tri__buffer_add(line, clean.text ? clean.text : "", clean.size);
    line->failed |= clean.failed;
}

/* Columns of a line. */
static int width_of(const char *text, size_t size) {
    int columns = 0;
    for (size_t at = 0; at < size;) {
        int32_t code = tri__utf8_next(text, size, &at);
        if (code >= ' ') columns += tri__char_width(code);
    }
    return columns;
}

/* ---- the screen ---- */

/* Bytes of a line that fit into `width` columns: figures, which two blanks separate, are shown whole or not at all. */
static size_t fitting(const tri_buffer *line, int width) {
    size_t size = line->size, gap = 0;
    int columns = 0;
    while (size && line->text[size - 1] == ' ') size--;
    if (width_of(line->text, size) <= width) return size;
    for (size_t at = 0; at < size;) {
        size_t begin = at;
        int32_t code = tri__utf8_next(line->text, size, &at);
        if (code >= ' ') columns += tri__char_width(code);
        if (columns > width) break;
        if (begin > 16 && !strncmp(line->text + begin, "  ", 2)) gap = begin;
    }
    return gap ? gap : size;
}

static void put_line(const tri_buffer *line, const tri_screen *screen, tri_buffer *out) {
    static const char *const codes[] = {"",         "\033[32m", "\033[33m", "\033[31m",
                                        "\033[2m", "\033[1m",  "\033[0m"};
    int columns = 0, painted = 0;
    size_t size = fitting(line, screen->width);
    for (size_t at = 0; at < size;) {
        size_t begin = at;
        int32_t code = tri__utf8_next(line->text, size, &at);
        if (code > 0 && code <= 6) {
            if (screen->color) tri__buffer_put(out, "%s", codes[code]), painted = code != 6;
            continue;
        }
        if (columns + tri__char_width(code) > screen->width) break;
        columns += tri__char_width(code);
        tri__buffer_add(out, line->text + begin, at - begin);
    }
    if (painted) tri__buffer_put(out, "%s", codes[6]);
    tri__buffer_add(out, "\n", 1);
}

void tri__lines_print(tri_lines *lines, const tri_screen *screen, tri_buffer *out) {
    int left = lines->n;
    char gone[TRI_SCREEN_LINES] = {0};
    for (; screen->height && left > screen->height; left--) {
        int least = 0;
        while (gone[least]) least++;
        for (int i = least; i < lines->n; i++)
            if (!gone[i] && lines->line[i].rank >= lines->line[least].rank) least = i;
        gone[least] = 1;
    }
    for (int i = 0; i < lines->n; i++) {
        out->failed |= lines->line[i].text.failed;
        if (!gone[i]) put_line(&lines->line[i].text, screen, out);
        tri__buffer_free(&lines->line[i].text);
    }
    lines->n = 0;
}

/* ---- bars and curves ---- */

static const char *const across[] = {" ",      "\u258F", "\u258E", "\u258D", "\u258C",
                                     "\u258B", "\u258A", "\u2589", "\u2588"};
static const char *const up[] = {" ", "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};

void tri__lines_bar(tri_buffer *line, double share, int cells, int utf8) {
    share = share > 1 ? 1 : share > 0 ? share : 0;
    int eighths = (int)lround(share * cells * 8);
    for (int c = 0; c < cells; c++, eighths -= 8) {
        int filled = eighths > 8 ? 8 : eighths < 0 ? 0 : eighths;
        if (utf8) tri__buffer_put(line, "%s", filled ? across[filled] : "\u00B7");
        else tri__buffer_put(line, "%s", filled >= 4 ? "#" : "-");
    }
}

/* The mean of the values in each of `columns` equal parts of x; NaN: none is there. */
static void bucket(const double *x, const double *value, size_t n, int columns, double *mean) {
    size_t i = 0;
    for (int c = 0; c < columns; c++) {
        double sum = 0;
        int count = 0;
        for (; i < n && (c == columns - 1 || x[i] * columns < c + 1); i++) sum += value[i], count++;
        mean[c] = count ? sum / count : NAN;
    }
}

static void put_cell(tri_buffer *line, double height, int row, int rows, int utf8) {
    static const char shades[] = "_.-~=+*#%@"; /* of a single line in ASCII: the higher, the darker */
    if (isnan(height)) {
        tri__buffer_put(line, " ");
        return;
    }
    int eighths = (int)lround(height * (rows * 8 - 1)) + 1 - (rows - 1 - row) * 8; /* at least one, at the bottom */
    int filled = eighths > 8 ? 8 : eighths < 0 ? 0 : eighths;
    if (utf8) tri__buffer_put(line, "%s", up[filled]);
    else if (rows == 1) tri__buffer_put(line, "%c", shades[(int)lround(height * 9)]);
    else tri__buffer_put(line, "%s", eighths >= 1 && eighths <= 8 ? "*" : " ");
}

void tri__lines_curve(tri_lines *lines, int rank, const double *x, const double *value, size_t n, int rows,
                      int columns, int utf8) {
    enum { LABEL = 9 };
    if (columns - LABEL < 4 || !n || rows < 1) return;
    columns -= LABEL;
    double *mean = malloc((size_t)columns * sizeof *mean), low = INFINITY, high = -INFINITY;
    if (!mean) return;
    bucket(x, value, n, columns, mean);
    for (int c = 0; c < columns; c++)
        if (!isnan(mean[c])) low = fmin(low, mean[c]), high = fmax(high, mean[c]);
    for (int row = 0; row < rows; row++) {
        tri_buffer *line = tri__lines_new(lines, rank + (row == rows - 1 ? 0 : 1));
        double label = row == 0 ? high : low;
        if (row == 0 || row == rows - 1) tri__buffer_put(line, TRI_FAINT "%8.4g" TRI_PLAIN " ", label);
        else tri__buffer_put(line, "%*s", LABEL, "");
        for (int c = 0; c < columns; c++)
            put_cell(line, isnan(mean[c]) ? NAN : high > low ? (mean[c] - low) / (high - low) : 0, row, rows, utf8);
    }
    free(mean);
}
