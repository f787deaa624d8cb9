/* timeline_svg.c - lays a timeline out: title and note, rows grouped in one band per stage, an axis, a legend.
 *
 * Consecutive legs of a row with the same kind and microbatch are one box, unless a gap between them is visible at this
 * width. A box that hides gaps is reduced in height by their share, so that coloured area is proportional to time spent
 * computing. Colours can be told apart by readers with red-green colour blindness, and in grey. */
#include "web/timeline_svg.h"

#include <math.h>

/* Pixels. */
enum {
    WIDTH = 1000,
    LEFT = 132, RIGHT = 24, /* margins of the rows */
    TOP = 66,               /* above the first row: title and note */
    BAR = 15,               /* a box */
    LANE = 19,              /* a box, and the line of transfers below it */
    STEP = 22,              /* from row to row */
    BAND = 8,               /* extra, between groups */
    FOOT = 88,              /* axis and legend */
    LETTER = 7, DIGIT = 6,  /* approximate widths: in the legend, in a microbatch's number */
    DIGITS_HIGH = 8,        /* least height of a box with a number */
    TICKS = 10,             /* most ticks of the axis */
};
static const double PLOT = WIDTH - LEFT - RIGHT;
static const double GAP = 1;     /* least gap between two boxes that are drawn separately */
static const double FULL = 0.97; /* a box that computes this share of its time is drawn in full height */

static const struct {
    char kind, class;
    const char *name, *alone; /* alone: if W is not separate from B */
} kinds[] = {
    {'F', 'f', "forward", "forward"}, {'B', 'b', "backward: inputs", "backward"},
    {'W', 'w', "backward: weights", ""}, {'U', 'u', "update", "update"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char style[] =
    "<style>"
    ".tl{font:12px system-ui,-apple-system,\"Segoe UI\",Helvetica,Arial,sans-serif}"
    ".tl text{fill:#1f2328}.tl .h{font-size:16px;font-weight:600}.tl .n,.tl .x text,.tl .r{fill:#59636e}"
    ".tl .r{text-anchor:end}.tl .x text{text-anchor:middle}"
    ".tl .bg{fill:#fff;stroke:#d1d9e0}.tl .band{fill:#f3f5f8}.tl .lane{fill:#e4e8ee}"
    ".tl .x path{stroke:#c3cad2;stroke-width:1}"
    ".tl .f{fill:#2f6fb7}.tl .b{fill:#0e8a6d}.tl .w{fill:#e9a23b}.tl .u{fill:#b4508e}"
    ".tl .c{fill:none;stroke:#6b7785;stroke-width:2.5}"
    ".tl .k text{font-size:9.5px;text-anchor:middle;fill:#fff}.tl .k .d{fill:#2a1c00}"
    "@media(prefers-color-scheme:dark){"
    ".tl text{fill:#e6edf3}.tl .n,.tl .x text,.tl .r{fill:#9198a1}"
    ".tl .bg{fill:#0d1117;stroke:#3d444d}.tl .band{fill:#151b23}.tl .lane{fill:#232b35}"
    ".tl .x path{stroke:#39424d}.tl .c{stroke:#9aa7b4}"
    ".tl .f{fill:#3b7dc9}.tl .b{fill:#12906f}"
    ".tl .k text{fill:#fff}.tl .k .d{fill:#2a1c00}}"
    "</style>";

typedef struct drawing {
    const tri_timeline_chart *chart;
    tri_buffer *svg;
    double scale;   /* pixels per second */
    int bottom;     /* of the last row */
} drawing;

/* ---- Where things are ---- */

static int starts_group(const tri_timeline_chart *chart, int row) {
    return row == 0 || chart->row[row].group != chart->row[row - 1].group;
}

static int top_of(const tri_timeline_chart *chart, int row) {
    int top = TOP;
    for (int i = 1; i <= row; i++) top += STEP + (starts_group(chart, i) ? BAND : 0);
    return top;
}

static double x_of(const drawing *d, double seconds) { return LEFT + seconds * d->scale; }

static int has_kind(const tri_timeline_chart *chart, char kind) {
    for (int r = 0; r < chart->n_rows; r++)
        for (int i = 0; i < chart->row[r].n_legs; i++)
            if (chart->row[r].leg[i].kind == kind) return 1;
    return 0;
}

static int has_transfers(const tri_timeline_chart *chart) {
    for (int r = 0; r < chart->n_rows; r++)
        if (chart->row[r].n_transfers) return 1;
    return 0;
}

/* ---- Rows ---- */

/* Legs that are drawn as one. */
typedef struct box {
    tri_chart_span span;
    double busy; /* seconds of its legs; the rest are gaps too short to show */
} box;

/* The box that begins with leg *at; advances *at past it. */
static box next_box(const drawing *d, const tri_chart_row *row, int *at) {
    box b = {.span = row->leg[(*at)++]};
    b.busy = b.span.end - b.span.begin;
    for (; *at < row->n_legs; ++*at) {
        const tri_chart_span *leg = &row->leg[*at];
        if (leg->kind != b.span.kind || leg->mb != b.span.mb || (leg->begin - b.span.end) * d->scale >= GAP) break;
        b.busy += leg->end - leg->begin, b.span.end = leg->end;
    }
    return b;
}

static double length(const box *b) { return b->span.end - b->span.begin; }

/* Proportional to the share of the box that computes. */
static double height_of(const box *b) {
    double share = length(b) > 0 ? b->busy / length(b) : 1;
    return share > FULL ? BAR : BAR * share;
}

static void draw_boxes(const drawing *d, const tri_chart_row *row, int top, int kind) {
    int open = 0;
    for (int at = 0; at < row->n_legs;) {
        box b = next_box(d, row, &at);
        if (b.span.kind != kinds[kind].kind) continue;
        if (!open++) tri__buffer_put(d->svg, "<g class=\"%c\">", kinds[kind].class);
        double width = fmax(0.4, length(&b) * d->scale - 0.5); /* leaves space between neighbours */
        char x[32], y[32], w[32], h[32];
        tri__buffer_put(d->svg, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" rx=\"1.5\"/>",
                        tri__svg_number(x_of(d, b.span.begin), x), tri__svg_number(top + (BAR - height_of(&b)) / 2, y),
                        tri__svg_number(width, w), tri__svg_number(height_of(&b), h));
    }
    if (open) tri__buffer_put(d->svg, "</g>\n");
}

static int has_low_boxes(const drawing *d) {
    for (int r = 0; r < d->chart->n_rows; r++)
        for (int at = 0; at < d->chart->row[r].n_legs;) {
            box b = next_box(d, &d->chart->row[r], &at);
            if (height_of(&b) < BAR) return 1;
        }
    return 0;
}

static int digits_of(int n) { return snprintf(NULL, 0, "%d", n); }

/* Draws a microbatch's number once per run of boxes that have the same one: in the widest. */
static void draw_numbers(const drawing *d, const tri_chart_row *row, int top) {
    int open = 0;
    for (int at = 0; at < row->n_legs;) {
        box best = next_box(d, row, &at);
        while (at < row->n_legs && row->leg[at].kind == best.span.kind && row->leg[at].mb == best.span.mb) {
            box b = next_box(d, row, &at);
            if (length(&b) > length(&best)) best = b;
        }
        if (best.span.mb < 0 || length(&best) * d->scale < DIGIT * digits_of(best.span.mb) + 1) continue;
        if (height_of(&best) < DIGITS_HIGH) continue;
        if (!open++) tri__buffer_put(d->svg, "<g class=\"k\">");
        char x[32];
        tri__buffer_put(d->svg, "<text%s x=\"%s\" y=\"%d\">%d</text>", best.span.kind == 'W' ? " class=\"d\"" : "",
                        tri__svg_number(x_of(d, (best.span.begin + best.span.end) / 2), x), top + 11, best.span.mb);
    }
    if (open) tri__buffer_put(d->svg, "</g>\n");
}

static void draw_transfers(const drawing *d, const tri_chart_row *row, int top) {
    if (!row->n_transfers) return;
    tri__buffer_put(d->svg, "<path class=\"c\" d=\"");
    for (int i = 0; i < row->n_transfers;) {
        double begin = row->transfer[i].begin, end = row->transfer[i].end;
        for (i++; i < row->n_transfers && (row->transfer[i].begin - end) * d->scale < GAP; i++)
            end = fmax(end, row->transfer[i].end);
        tri__buffer_put(d->svg, "M%s %d.5h%s", tri__svg_number(x_of(d, begin), (char[32]){0}), top + BAR + 2,
                        tri__svg_number(fmax(0.4, (end - begin) * d->scale), (char[32]){0}));
    }
    tri__buffer_put(d->svg, "\"/>\n");
}

/* The band behind a group's rows, with its name. */
static void draw_band(const drawing *d, int row) {
    const tri_timeline_chart *chart = d->chart;
    int last = row, top = top_of(chart, row);
    while (last + 1 < chart->n_rows && !starts_group(chart, last + 1)) last++;
    tri__buffer_put(d->svg, "<rect class=\"band\" x=\"12\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>\n", top - 4,
                 WIDTH - 24, top_of(chart, last) + LANE - top + 8);
    if (chart->row[row].group_label) tri__svg_label(d->svg, "n", 20, top + 12, chart->row[row].group_label);
}

static void draw_row(const drawing *d, int index) {
    const tri_chart_row *row = &d->chart->row[index];
    int top = top_of(d->chart, index);
    if (starts_group(d->chart, index)) draw_band(d, index);
    tri__svg_label(d->svg, "r", LEFT - 8, top + 12, row->label);
    tri__buffer_put(d->svg, "<rect class=\"lane\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"1.5\"/>\n", LEFT,
                    top, (int)PLOT, BAR);
    for (int kind = 0; kind < KINDS; kind++) draw_boxes(d, row, top, kind);
    draw_numbers(d, row, top);
    draw_transfers(d, row, top);
}

/* ---- Around them ---- */

static void draw_axis(const drawing *d) {
    double seconds = d->chart->seconds, power = pow(10, floor(log10(seconds / TICKS))), step = power;
    const double steps[] = {2, 5, 10};
    for (int i = 0; i < 3 && seconds / step > TICKS; i++) step = steps[i] * power;
    double unit = seconds >= 1 ? 1 : seconds >= 1e-3 ? 1e-3 : 1e-6;
    const char *name = seconds >= 1 ? "s" : seconds >= 1e-3 ? "ms" : "\xC2\xB5s";
    int y = d->bottom + 6;
    tri__buffer_put(d->svg, "<g class=\"x\">");
    for (int i = 0; i * step <= seconds * (1 + 1e-9); i++) {
        char x[32];
        tri__svg_number(x_of(d, i * step), x);
        tri__buffer_put(d->svg, "<path d=\"M%s %dv5\"/><text x=\"%s\" y=\"%d\">%.6g%s%s</text>", x, y, x, y + 18,
                        i * step / unit, i ? "" : " ", i ? "" : name);
    }
    tri__buffer_put(d->svg, "</g>\n");
}

static int draw_key(const drawing *d, int x, int y, const char *mark, const char *name) {
    tri__buffer_put(d->svg, "%s", mark);
    tri__svg_label(d->svg, "n", x + 20, y, name);
    return x + 20 + LETTER * (int)strlen(name) + 18;
}

static void draw_legend(const drawing *d) {
    int x = LEFT, y = d->bottom + 52, apart = has_kind(d->chart, 'W');
    char mark[160];
    for (int i = 0; i < KINDS; i++) {
        if (!has_kind(d->chart, kinds[i].kind)) continue;
        snprintf(mark, sizeof mark, "<rect class=\"%c\" x=\"%d\" y=\"%d\" width=\"14\" height=\"12\" rx=\"2\"/>",
                 kinds[i].class, x, y - 10);
        x = draw_key(d, x, y, mark, apart ? kinds[i].name : kinds[i].alone);
    }
    snprintf(mark, sizeof mark, "<path class=\"c\" d=\"M%d %d.5h14\"/>", x, y - 4);
    if (has_transfers(d->chart)) x = draw_key(d, x, y, mark, "communication");
    snprintf(mark, sizeof mark, "<rect class=\"lane\" x=\"%d\" y=\"%d\" width=\"14\" height=\"12\" rx=\"2\"/>", x,
             y - 10);
    draw_key(d, x, y, mark, "idle");
    tri__svg_label(d->svg, "n", LEFT, y + 20,
                   has_low_boxes(d) ? "numbers: microbatches; a lower box computes only that share of its time"
                                    : "numbers: microbatches");
}

tri_status tri__timeline_svg(const tri_timeline_chart *chart, tri_buffer *out) {
    drawing d = {.chart = chart, .svg = out, .scale = PLOT / chart->seconds};
    TRI_ASSERT(chart->n_rows > 0 && chart->seconds > 0);
    d.bottom = top_of(chart, chart->n_rows - 1) + LANE + 4;
    int height = d.bottom + FOOT;
    const tri_svg_frame frame = {.class = "tl", .style = style, .title = chart->title, .note = chart->note,
                                 .width = WIDTH, .height = height};
    tri__svg_begin(out, &frame);
    for (int row = 0; row < chart->n_rows; row++) draw_row(&d, row);
    draw_axis(&d);
    draw_legend(&d);
    return tri__svg_end(out);
}
