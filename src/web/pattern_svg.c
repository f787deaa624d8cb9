/* pattern_svg.c - lays patterns out side by side, three to a line. Cells of equal shade that touch in a row are one
 * rectangle of a path. */
#include "web/pattern_svg.h"

#include "web/svg.h"

/* Pixels. */
enum {
    SIDE = 288,             /* of a square */
    LEFT = 74, RIGHT = 26,  /* around it: axis of queries */
    ABOVE = 58, BELOW = 62, /* title and note; axis of keys */
    TOP = 66,               /* above the first line of panels */
    ACROSS = 3,             /* panels in a line */
    TICKS = 4, SHADES = 4
};

static const char style[] =
    "<style>"
    ".ap{font:12px system-ui,-apple-system,\"Segoe UI\",Helvetica,Arial,sans-serif}"
    ".ap text{fill:#1f2328}.ap .h{font-size:16px;font-weight:600}.ap .t{font-weight:600}"
    ".ap .n,.ap .x text,.ap .y text{fill:#59636e}.ap .x text{text-anchor:middle}.ap .y text{text-anchor:end}"
    ".ap .bg{fill:#fff;stroke:#d1d9e0}.ap .sq{fill:#eef1f5;stroke:#c3cad2}.ap .tick{stroke:#8a94a0;stroke-width:1}"
    ".ap .s1{fill:#b9cfe9}.ap .s2{fill:#86abd8}.ap .s3{fill:#5a8dc8}.ap .s4{fill:#2f6fb7}"
    "@media(prefers-color-scheme:dark){"
    ".ap text{fill:#e6edf3}.ap .n,.ap .x text,.ap .y text{fill:#9198a1}"
    ".ap .bg{fill:#0d1117;stroke:#3d444d}.ap .sq{fill:#1a212b;stroke:#3d444d}.ap .tick{stroke:#6b7785}"
    ".ap .s1{fill:#20395a}.ap .s2{fill:#29538a}.ap .s3{fill:#336fb5}.ap .s4{fill:#4a90e0}}"
    "</style>";

/* 0: nothing is there; SHADES: all is. */
static int shade_of(float share) { return share <= 0 ? 0 : share >= 1 ? SHADES : 1 + (int)(share * (SHADES - 1)); }

/* Cells of one shade, as rectangles of a path: runs of a row. */
static void draw_cells(tri_buffer *svg, const tri_pattern_panel *p, int left, int top, int shade) {
    double cell = (double)SIDE / p->n;
    int any = 0;
    for (int i = 0; i < p->n; i++)
        for (int j = 0, end; j < p->n; j = end) {
            end = j + 1;
            if (shade_of(p->share[i * p->n + j]) != shade) continue;
            while (end < p->n && shade_of(p->share[i * p->n + end]) == shade) end++;
            if (!any++) tri__buffer_put(svg, "<path class=\"s%d\" d=\"", shade);
            tri__buffer_put(svg, "M%.2f %.2fh%.2fv%.2fh%.2fz", left + j * cell, top + i * cell, (end - j) * cell, cell,
                            -(end - j) * cell);
        }
    if (any) tri__buffer_put(svg, "\"/>\n");
}

/* A round step of at most TICKS ticks. */
static int step_of(int tokens) {
    int power = 1;
    while (power * TICKS < tokens) power *= 2;
    return power;
}

static void draw_axes(tri_buffer *svg, const tri_pattern_panel *p, int left, int top) {
    int step = step_of(p->tokens);
    for (int t = 0; t <= p->tokens; t += step) {
        double at = (double)SIDE * t / p->tokens;
        tri__buffer_put(svg, "<path class=\"tick\" d=\"M%.1f %dv5M%d %.1fh-5\"/>", left + at, top + SIDE, left,
                        top + at);
        tri__buffer_put(svg, "<g class=\"x\"><text x=\"%.1f\" y=\"%d\">%d</text></g>", left + at, top + SIDE + 19, t);
        tri__buffer_put(svg, "<g class=\"y\"><text x=\"%d\" y=\"%.1f\">%d</text></g>\n", left - 9, top + at + 4, t);
    }
    tri__buffer_put(svg, "<g class=\"x\"><text x=\"%d\" y=\"%d\">keys, tokens</text>", left + SIDE / 2,
                    top + SIDE + 38);
    tri__buffer_put(svg, "<text transform=\"translate(%d %d) rotate(-90)\">queries, tokens</text></g>\n", left - 52,
                    top + SIDE / 2);
}

static void draw_panel(tri_buffer *svg, const tri_pattern_panel *p, int index) {
    int left = LEFT + index % ACROSS * (LEFT + SIDE + RIGHT);
    int top = TOP + index / ACROSS * (ABOVE + SIDE + BELOW) + ABOVE;
    tri__svg_label(svg, "t", left, top - 28, p->title);
    tri__svg_label(svg, "n", left, top - 10, p->note);
    tri__buffer_put(svg, "<rect class=\"sq\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", left, top, SIDE, SIDE);
    for (int shade = 1; shade <= SHADES; shade++) draw_cells(svg, p, left, top, shade);
    draw_axes(svg, p, left, top);
}

tri_status tri__pattern_svg(const tri_pattern_chart *chart, tri_buffer *out) {
    int across = chart->n < ACROSS ? chart->n : ACROSS, lines = (chart->n + ACROSS - 1) / ACROSS;
    int width = across * (LEFT + SIDE + RIGHT), height = TOP + lines * (ABOVE + SIDE + BELOW);
    TRI_ASSERT(chart->n > 0);
    const tri_svg_frame frame = {.class = "ap", .style = style, .title = chart->title, .note = chart->note,
                                 .width = width, .height = height};
    tri__svg_begin(out, &frame);
    for (int i = 0; i < chart->n; i++) draw_panel(out, &chart->panel[i], i);
    return tri__svg_end(out);
}
