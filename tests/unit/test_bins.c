/* test_bins.c - bins of numbers and of indices, the stability index against numpy's (tools/golden_bins.py), lists that
 * are wrong; answers as variables. */
#include "base/bins.h"

#include "score/answers.h"

#include <math.h>

#include "tests/lib/test.h"

enum { MOST = 4096 };

static int64_t read_list(const tri_json *list, float *out) {
    tri__json_each(list, i, one) out[i] = tri__json_is_null(one) ? NAN : (float)tri__json_number_value(one);
    return (int64_t)tri__json_size(list);
}

TEST(test_index_equals_numpys) {
    tri_json *golden;
    assert_int_equal(tri__json_load("tests/golden/bins.json", TRI_DATA, &golden), TRI_OK);
    assert_true(tri__json_size(tri__json_get(golden, "cases")) >= 6);
    tri__json_items(tri__json_get(golden, "cases"), of) {
        static float then[MOST], now[MOST], edges[TRI_BINS];
        const char *name = tri__text_in(of, "name");
        tri_bin_set set = {0}, back = {0};
        tri_json *list;
        int64_t n = read_list(tri__json_get(of, "then"), then), m = read_list(tri__json_get(of, "now"), now),
                count[TRI_BINS + 1] = {0}, k = read_list(tri__json_get(of, "edges"), edges);
        assert_int_equal(tri__bins_add("it", (int)tri__whole_in(of, "of"), &set), TRI_OK);
        assert_int_equal(tri__bins_fit(&set, then, n, n, &list), TRI_OK);
        assert_int_equal(tri__bins_add("it", (int)tri__whole_in(of, "of"), &back), TRI_OK);
        char *text = tri__json_text(list, 0);
        tri_json *parsed;
        assert_int_equal(tri__json_parse_any(text, strlen(text), "it", TRI_DATA, &parsed), TRI_OK);
        assert_int_equal(tri__bins_parse(parsed, "it", 0, &back), TRI_OK);
        const tri_bins *b = back.at;
        if (b->n != k + 1) fail_msg("%s: %d bins, not %d", name, b->n, (int)k + 1);
        assert_memory_equal(b->edge, edges, (size_t)k * sizeof *edges);
        assert_memory_equal(b->count, set.at->count, (size_t)(b->n + 1) * sizeof *b->count);
        for (int64_t i = 0; i < m; i++) count[tri__bins_at(b, now[i])]++;
        double by_chance, got = tri__bins_psi(b->count, count, b->n + 1, &by_chance), want = tri__number_in(of, "psi");
        if (!(fabs(got - want) <= 1e-9)) fail_msg("%s: %.15g, not %.15g", name, got, want);
        assert_true(fabs(by_chance - tri__number_in(of, "by_chance")) <= 1e-9);
        assert_true(tri__bins_psi(b->count, b->count, b->n + 1, &by_chance) == 0);
        free(text);
        tri__json_decref(list), tri__json_decref(parsed);
        tri__bins_free(&set), tri__bins_free(&back);
    }
    tri__json_decref(golden);
    double by_chance;
    assert_true(isnan(tri__bins_psi((int64_t[]){1, 2}, (int64_t[]){0, 0}, 2, &by_chance)));
}

/* Missing numbers that were filled are counted as missing, of any row with that number. */
TEST(test_filled_numbers_are_missing) {
    const float value[] = {1, 2, 3, 4, 5, 3, 3, 3, 9, 10};
    tri_bin_set set = {0};
    tri_json *list;
    assert_int_equal(tri__bins_add("it", 0, &set), TRI_OK);
    set.at->missing = 3, set.at->filled = 3;
    assert_int_equal(tri__bins_fit(&set, value, 10, 10, &list), TRI_OK);
    int64_t all = 0;
    for (int k = 0; k < set.at->n; k++) all += set.at->count[k];
    assert_int_equal(all, 7);
    assert_int_equal(set.at->count[set.at->n], 3);
    tri__json_decref(list);
    tri__bins_free(&set);
}

TEST(test_wrong_lists_are_refused) {
    static const char *const wrong[] = {
        "[]", "[7]", "{}", "[{\"name\": \"it\"}]", "[{\"name\": \"is\", \"edges\": [], \"counts\": [1, 0]}]",
        "[{\"name\": \"it\", \"edges\": [1], \"counts\": [1, 0]}]",
        "[{\"name\": \"it\", \"edges\": [], \"counts\": [0]}]",
        "[{\"name\": \"it\", \"edges\": [2, 1], \"counts\": [1, 1, 1, 0]}]",
        "[{\"name\": \"it\", \"edges\": [\"1\"], \"counts\": [1, 1, 0]}]",
        "[{\"name\": \"it\", \"edges\": [], \"counts\": [-1, 0]}]",
        "[{\"name\": \"it\", \"edges\": [], \"counts\": [1.5, 0]}]",
        "[{\"name\": \"it\", \"edges\": [], \"counts\": [9223372036854775807, 0]}]",
        "[{\"name\": \"it\", \"edges\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20], "
        "\"counts\": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tri_bin_set set = {0};
        tri_json *list;
        assert_int_equal(tri__bins_add("it", 0, &set), TRI_OK);
        assert_int_equal(tri__json_parse_any(wrong[i], strlen(wrong[i]), "it", TRI_DATA, &list), TRI_OK);
        if (tri__bins_parse(list, "it", 0, &set) != TRI_DATA) fail_msg("%s is accepted", wrong[i]);
        tri__json_decref(list);
        tri__bins_free(&set);
    }
}

TEST(test_answers_are_variables) {
    static char *const names[] = {"a", "b", "c"};
    static const float from[] = {0.5f, 0.2f, 0.9f}, row[] = {0.6f, 0.3f, 0.1f};
    tri_decision decision = tri__decision_plain();
    tri_answer_form form = {.n = 3, .label = names, .decision = &decision};
    float value[4];
    tri__answer_values(&form, row, value);
    assert_true(value[0] == 0 && value[1] == 0.6f);
    form.several = 1, decision.from = from;
    tri__answer_values(&form, row, value);
    assert_true(value[0] == 1 && value[1] == 1 && value[2] == 0 && value[3] == 0.6f);
    form = (tri_answer_form){.n = 3, .is_number = 1};
    tri__answer_values(&form, row, value);
    assert_true(value[0] == 0.6f);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
