/* test_svg.c - SVG text: escaping, number formats, and the elements of a timeline whose boxes can be counted by
 * hand. */
#include "web/timeline_svg.h"

#include "tests/lib/test.h"

TEST(text) {
    static const char *const cases[][2] = {
        {"plain, \xC3\x97 and \xE2\x82\xAC", "plain, \xC3\x97 and \xE2\x82\xAC"},
        {"<a href=\"x\">&amp;'</a>", "&lt;a href=&quot;x&quot;&gt;&amp;amp;&#39;&lt;/a&gt;"},
        {"a\nb\x01\x7f", "a b  "},
        {"\xC3(\xFF", "\xEF\xBF\xBD(\xEF\xBF\xBD"},      /* no UTF-8 */
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* half of a pair */
        {"\xEF\xBF\xBF", " "},                           /* U+FFFF, which XML does not have */
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_buffer svg = {0};
        tri__svg_text(&svg, cases[i][0]);
        tri__buffer_put(&svg, "%s", "");
        assert_string_equal(svg.text, cases[i][1]);
        assert_int_equal(svg.size, strlen(cases[i][1]));
        tri__buffer_free(&svg);
    }
}

TEST(numbers) {
    static const struct {
        double x;
        const char *text;
    } cases[] = {{0, "0"}, {12, "12"}, {12.34, "12.3"}, {12.96, "13"}, {-0.04, "0"}, {-1.25, "-1.3"}, {0.06, "0.1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        assert_string_equal(tri__svg_number(cases[i].x, text), cases[i].text);
    }
}

/* What is put in by pieces is what is put in at once, over many growths. */
TEST(growth) {
    tri_buffer svg = {0};
    for (int i = 0; i < 10000; i++) tri__buffer_put(&svg, "%04d", i);
    assert_int_equal(svg.size, 40000);
    assert_int_equal(strlen(svg.text), 40000);
    assert_memory_equal(svg.text + 4 * 1234, "1234", 4);
    tri__buffer_free(&svg);
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

/* What stands between `from` and the next `to`. */
static char *between(const char *text, const char *from, const char *to) {
    const char *begin = strstr(text, from);
    assert_non_null(begin);
    begin += strlen(from);
    const char *end = strstr(begin, to);
    assert_non_null(end);
    char *part = strndup(begin, (size_t)(end - begin));
    assert_non_null(part);
    return part;
}

/* Ten seconds on 844 pixels: 84.4 a second. */
TEST(timeline) {
    static const tri_chart_span first[] = {
        {0, 1, 'F', 0}, {1, 2, 'F', 0},          /* one box */
        {2.005, 3, 'F', 0},                      /* less than a pixel behind it: still the same */
        {3.1, 4, 'F', 0},                        /* a gap that shows: another box, without a number of its own */
        {4, 5, 'F', 1}, {5, 7, 'B', 0}, {7, 7.05, 'W', 0}, /* too narrow for a number */
        {9, 10, 'U', -1}};
    static const tri_chart_span second[] = {{2, 6, 'B', 12}, {6, 6.001, 'B', 12}, {6.01, 6.011, 'B', 12}};
    static const tri_chart_span moves[] = {{0, 1, 0, -1}, {1.001, 2, 0, -1}, {5, 6, 0, -1}};
    const tri_chart_row rows[] = {
        {.label = "rank 0", .group = 0, .group_label = "stage 0", .leg = first, .n_legs = 8},
        {.label = "rank 1", .group = 1, .group_label = "stage <1>", .leg = second, .n_legs = 3, .transfer = moves,
         .n_transfers = 3}};
    const tri_timeline_chart chart = {.title = "A & B", .note = "a note", .seconds = 10, .row = rows, .n_rows = 2};
    tri_buffer svg, again;
    assert_int_equal(tri__timeline_svg(&chart, &svg), TRI_OK);
    assert_int_equal(tri__timeline_svg(&chart, &again), TRI_OK);
    assert_string_equal(svg.text, again.text);
    assert_int_equal(count(svg.text, "class=\"lane\""), 2 + 1); /* rows, and the legend's */
    assert_int_equal(count(svg.text, "class=\"band\""), 2);
    assert_int_equal(count(svg.text, "<rect"), count(svg.text, "/>") - count(svg.text, "<path"));
    assert_int_equal(count(svg.text, "<g"), count(svg.text, "</g>"));
    assert_int_equal(count(svg.text, "<text"), count(svg.text, "</text>"));
    char *part = between(svg.text, "<g class=\"f\">", "</g>");
    assert_string_equal(part, "<rect x=\"132\" y=\"66\" width=\"252.7\" height=\"15\" rx=\"1.5\"/>"
                              "<rect x=\"393.6\" y=\"66\" width=\"75.5\" height=\"15\" rx=\"1.5\"/>"
                              "<rect x=\"469.6\" y=\"66\" width=\"83.9\" height=\"15\" rx=\"1.5\"/>");
    free(part);
    part = between(svg.text, "<g class=\"k\">", "</g>");
    assert_string_equal(part, "<text x=\"258.6\" y=\"77\">0</text><text x=\"511.8\" y=\"77\">1</text>"
                              "<text x=\"638.4\" y=\"77\">0</text>");
    free(part);
    part = between(svg.text, "<path class=\"c\" d=\"", "\"/>");
    assert_string_equal(part, "M132 113.5h168.8M554 113.5h84.4");
    free(part);
    assert_int_equal(count(svg.text, ">12</text>"), 1); /* three legs, one box */
    assert_non_null(strstr(svg.text, ">stage &lt;1&gt;</text>"));
    assert_non_null(strstr(svg.text, "<title>A &amp; B</title>"));
    assert_non_null(strstr(svg.text, ">0 s</text>"));
    assert_non_null(strstr(svg.text, "backward: weights"));
    assert_null(strstr(svg.text, "lower box"));
    tri__buffer_free(&svg), tri__buffer_free(&again);
}

/* A microbatch that waits half of its time in short gaps: a box of half the height, and the legend says so. */
TEST(short_gaps) {
    enum { N = 1000 };
    static tri_chart_span leg[N];
    for (int i = 0; i < N; i++) leg[i] = (tri_chart_span){i * 1e-6, (i + 0.5) * 1e-6, 'F', 3};
    const tri_chart_row row = {.label = "rank 0", .leg = leg, .n_legs = N};
    const tri_timeline_chart chart = {.title = "", .note = "", .seconds = 1e-3, .row = &row, .n_rows = 1};
    tri_buffer svg;
    assert_int_equal(tri__timeline_svg(&chart, &svg), TRI_OK);
    char *part = between(svg.text, "<g class=\"f\">", "</g>");
    assert_string_equal(part, "<rect x=\"132\" y=\"69.7\" width=\"843.1\" height=\"7.5\" rx=\"1.5\"/>");
    free(part);
    assert_non_null(strstr(svg.text, "lower box"));
    assert_non_null(strstr(svg.text, ">0 ms</text>"));
    assert_null(strstr(svg.text, "stage"));
    assert_null(strstr(svg.text, "communication"));
    tri__buffer_free(&svg);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
