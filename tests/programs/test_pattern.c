/* test_pattern.c - patterns of block-sparse attention: their blocks, the words that kernels read, JSON and errors. */
#include "base/file.h"
#include "layout/blocks.h"
#include "model/config.h"

#include <math.h>

#include "tests/lib/test.h"
#include "tests/lib/json_text.h"

static tri_pattern pattern_of(const char *text) {
    tri_pattern pattern;
    tri_json *json = json_of(text);
    assert_non_null(json);
    if (tri__pattern_parse(json, "here", &pattern) != TRI_OK) fail_msg("%s: %s", text, tri_error());
    tri__json_decref(json);
    return pattern;
}

/* Rows separated by |, 1 where a block is present. Those of DeepSpeed's modes are what DeepSpeed's rules give. */
static const struct { const char *json; int blocks, layout; const char *rows; } layouts[] = {
    {"{\"mode\": \"window\", \"window\": 1}", 4, 0, "11..|111.|.111|..11"},
    {"{\"mode\": \"window\", \"window\": 129}", 5, 0, "111..|1111.|11111|.1111|..111"},
    {"{\"mode\": \"longformer\", \"window\": 64, \"block\": 32, \"global_tokens\": 33}", 5, 0,
     "11111|11111|1111.|11111|11.11"},
    {"{\"mode\": \"strided\", \"window\": 32, \"block\": 16, \"stride\": 48}", 7, 0,
     "11.1..1|111.1..|.111.1.|1.111.1|.1.111.|..1.111|1..1.11"},
    {"{\"mode\": \"offsets\", \"offsets\": [0, -2, 1], \"global_block_indices\": [1]}", 5, 0,
     "11...|.11..|1111.|.1.11|.11.1"},
    {"{\"mode\": \"fixed\"}", 10, 0,
     "1111...1.1|1111...1.1|1111...1.1|1111...1.1|...11111.1|...11111.1|...11111.1|...11111.1|...1...111|...1...111"},
    {"{\"mode\": \"fixed\", \"num_global_blocks\": 2, \"num_different_global_patterns\": 2, "
     "\"different_layout_per_head\": true, \"attention\": \"bidirectional\"}", 10, 1,
     "111111..11|111111..11|111111..11|111111..11|11..111111|11..111111|11..111111|11..111111|11..11..11|11..11..11"},
    {"{\"mode\": \"fixed\", \"horizontal_global_attention\": true}", 9, 0,
     "1111...11|1111...11|1111...11|111111111|...111111|...111111|...111111|111111111|111111111"},
    {"{\"mode\": \"fixed\"}", 3, 0, "111|111|111"},
    {"{\"mode\": \"variable\", \"local_window_blocks\": [1, 3, 2], \"global_block_indices\": [0, 4]}", 9, 0,
     "1...1....|11111....|11111....|11111....|1...11...|1...11...|1...1.11.|1...1.11.|1...1...1"},
    {"{\"mode\": \"variable\", \"local_window_blocks\": [3], \"global_block_indices\": [2, 20], "
     "\"global_block_end_indices\": [4, 22], \"horizontal_global_attention\": true}", 8, 0,
     "1111....|1111....|11111111|11111111|..1111..|..1111..|..11..11|..11..11"},
    {"{\"mode\": \"bslongformer\", \"global_block_indices\": [0, 5]}", 8, 0,
     "11111111|111..1..|1111.1..|1.1111..|1..111..|11111111|1....111|1....111"},
    {"{\"mode\": \"bslongformer\", \"num_sliding_window_blocks\": 5, \"global_block_indices\": [1], "
     "\"global_block_end_indices\": [3]}", 8, 0,
     "111.....|11111111|11111111|.11111..|.111111.|.1111111|.11.1111|.11..111"},
    {"{\"mode\": \"bigbird\", \"num_random_blocks\": 0, \"num_global_blocks\": 2}", 8, 0,
     "11111111|11111111|1111....|11111...|11.111..|11..111.|11...111|11....11"},
    {"{\"mode\": \"variable\", \"local_window_blocks\": [2], \"global_block_indices\": []}", 4, 0,
     "11..|11..|..11|..11"},
    {"{\"mode\": \"dense\", \"block\": 16}", 2, 0, "11|11"},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

TEST(test_layouts) {
    for (int k = 0; k < LAYOUTS; k++) {
        tri_pattern p = pattern_of(layouts[k].json);
        char text[400];
        size_t used = 0;
        int64_t n = layouts[k].blocks;
        for (int64_t i = 0; i < n; i++) {
            uint8_t present[16];
            tri__pattern_row(&p, layouts[k].layout, n, i, present);
            if (i) text[used++] = '|';
            for (int64_t j = 0; j < n; j++) text[used++] = present[j] ? '1' : '.';
        }
        text[used] = 0;
        if (strcmp(text, layouts[k].rows) != 0) fail_msg("%s:\n%s, not\n%s", layouts[k].json, text, layouts[k].rows);
    }
}

/* Words against rows: lists ascend, the second ones are the transpose, figures count tokens. */
static void expect_words(const tri_pattern *p, int64_t max_len, int64_t heads) {
    tri_arena arena;
    assert_int_equal(tri__arena_open(&arena, 1 << 20), TRI_OK);
    assert_int_equal(tri__pattern_check(p, "here", max_len, heads), TRI_OK);
    tri_blocks blocks = tri__pattern_blocks(&arena, p, max_len, heads, 0);
    int64_t n = tri__pattern_rows(p, max_len), total = 0, longest = 0;
    double pairs = 0, first = 0;
    int layouts_ = tri__pattern_layouts(p, heads);
    assert_non_null(blocks.word);
    assert_true(blocks.word[0] == n && blocks.word[1] == layouts_);
    for (int64_t head = 0; head < layouts_; head++) {
        tri_block_lists keys = tri__blocks_of_queries(blocks.word, head + layouts_),
                        queries = tri__blocks_of_keys(blocks.word, head);
        for (int64_t i = 0; i < n; i++) {
            uint8_t row[64], listed[64] = {0};
            tri__pattern_row(p, (int)head, n, i, row);
            for (int32_t k = keys.at[i]; k < keys.at[i + 1]; k++) {
                assert_true(k == keys.at[i] || keys.of[k] > keys.of[k - 1]);
                listed[keys.of[k]] = 1;
                int64_t tokens = max_len - keys.of[k] * p->block < p->block ? max_len - keys.of[k] * p->block
                                                                            : p->block;
                int64_t mine = max_len - i * p->block < p->block ? max_len - i * p->block : p->block;
                pairs += (double)(tokens * mine), first += i == 0 ? (double)tokens : 0;
            }
            assert_memory_equal(row, listed, (size_t)n);
            memset(listed, 0, sizeof listed);
            for (int32_t k = queries.at[i]; k < queries.at[i + 1]; k++) {
                assert_true(k == queries.at[i] || queries.of[k] > queries.of[k - 1]);
                listed[queries.of[k]] = 1;
            }
            for (int64_t j = 0; j < n; j++) {
                tri__pattern_row(p, (int)head, n, j, row);
                assert_int_equal(row[i], listed[j]);
            }
            if (tri__blocks_end(keys, i, n) > longest) longest = tri__blocks_end(keys, i, n);
            for (int32_t end = tri__blocks_end(keys, i, i + 1), k = keys.at[i]; k < keys.at[i + 1]; k++)
                assert_int_equal(k < end, keys.of[k] <= i);
            assert_true(tri__blocks_end(keys, i, i + 1) > keys.at[i]);
        }
        total += 2 * (n + 1 + keys.at[n]);
    }
    assert_int_equal(blocks.n, 2 + layouts_ + total);
    assert_true(fabs(blocks.keys - pairs / (double)max_len / layouts_) < 1e-9 * blocks.keys);
    assert_true(blocks.first_keys == first / layouts_);
    tri__arena_close(&arena);
}

TEST(test_words) {
    static const char *const patterns[] = {
        "{\"mode\": \"window\", \"window\": 128}",
        "{\"mode\": \"fixed\", \"num_different_global_patterns\": 4, \"different_layout_per_head\": true}",
        "{\"mode\": \"bigbird\", \"num_random_blocks\": 2, \"different_layout_per_head\": true, \"seed\": 7}",
        "{\"mode\": \"variable\", \"num_random_blocks\": 1, \"seed\": 7}",
    };
    for (int k = 0; k < 4; k++) {
        tri_pattern p = pattern_of(patterns[k]);
        expect_words(&p, 16 * p.block, 3);
        expect_words(&p, 16 * p.block - 5, 6);
    }
    tri_pattern p = pattern_of("{\"mode\": \"window\", \"window\": 4096}"); /* all blocks of 512 tokens: dense */
    tri_arena arena;
    assert_int_equal(tri__arena_open(&arena, 1 << 20), TRI_OK);
    assert_null(tri__pattern_blocks(&arena, &p, 512, 4, 0).word);
    assert_non_null(tri__pattern_blocks(&arena, &p, 1 << 16, 4, 0).word);
    tri__arena_close(&arena);
}

/* Random blocks depend on seed, layout and row; a row has as many as asked for, everywhere. */
TEST(test_random) {
    tri_pattern p = pattern_of("{\"mode\": \"variable\", \"num_random_blocks\": 3, \"local_window_blocks\": [1], "
                               "\"global_block_indices\": null, \"different_layout_per_head\": true, \"seed\": 5}");
    enum { N = 40 };
    int columns[N] = {0}, same = 0, alike = 0;
    for (int i = 0; i < N; i++) {
        uint8_t row[N], again[N], other[N];
        tri__pattern_row(&p, 0, N, i, row);
        tri__pattern_row(&p, 0, N, i, again);
        assert_memory_equal(row, again, N);
        tri__pattern_row(&p, 1, N, i, again);
        p.seed = 6;
        tri__pattern_row(&p, 0, N, i, other);
        p.seed = 5;
        int count = 0;
        for (int j = 0; j < N; j++) count += row[j], columns[j] += row[j];
        assert_in_range(count, 3, 4); /* its own block may be one of them */
        same += memcmp(row, again, N) == 0, alike += memcmp(row, other, N) == 0;
    }
    assert_true(same < 3 && alike < 3);
    for (int j = 0; j < N; j++) assert_in_range(columns[j], 1, 14);
}

TEST(test_json) {
    for (int k = 0; k < LAYOUTS; k++) {
        tri_pattern p = pattern_of(layouts[k].json), back;
        tri_json *json = tri__pattern_json(&p);
        assert_int_equal(tri__pattern_parse(json, "here", &back), TRI_OK);
        assert_memory_equal(&p, &back, sizeof p);
        tri__json_decref(json);
        tri_encoder e, again = {0};
        assert_true(tri__encoder_preset("bert-base-cased", &e));
        e.pattern = p;
        json = tri__encoder_json(&e);
        assert_int_equal(tri__encoder_parse(json, "here", &again), TRI_OK);
        assert_memory_equal(&e, &again, sizeof e);
        tri__json_decref(json);
    }
    static const char *const names[] = {"dense", "window", "longformer", "bigbird", "fixed", "strided"};
    for (int k = 0; k < 6; k++) {
        tri_pattern p;
        assert_int_equal(tri__pattern_load(names[k], &p), TRI_OK);
        assert_true(p.block == (k ? 64 : 0) && p.mode >= 0);
    }
}

TEST(test_errors) {
    static const struct { const char *json, *words; } rows[] = {
        {"{}", "here: there is no mode; those are dense|window"},
        {"[]", "here: \"it\" is not a pattern"},
        {"{\"mode\": \"sliding\"}", "mode"},
        {"{\"mode\": \"window\", \"block\": 128}", "here: block is 128; blocks have 16, 32 or 64 tokens"},
        {"{\"mode\": \"window\", \"block\": 0}", "block is 0"},
        {"{\"mode\": \"window\", \"window\": 0}", "window: 0 is out of range"},
        {"{\"mode\": \"window\", \"windw\": 9}", "mode window has no key windw; did you mean window?"},
        {"{\"mode\": \"window\", \"num_local_blocks\": 9}", "has no key num_local_blocks; it has mode, block, window"},
        {"{\"mode\": \"fixed\", \"attention\": \"unidirectional\"}", "attention is \"unidirectional\"; encoders have"},
        {"{\"mode\": \"fixed\", \"num_global_blocks\": 3}", "num_local_blocks 4 is not a multiple of num_global_blocks"
         " 3"},
        {"{\"mode\": \"fixed\", \"num_different_global_patterns\": 5}", "is 5, but a window of 4 blocks has only 4"},
        {"{\"mode\": \"fixed\", \"num_different_global_patterns\": 2}", "2 needs different_layout_per_head"},
        {"{\"mode\": \"strided\", \"stride\": 100}", "stride 100 is not a multiple of block 64"},
        {"{\"mode\": \"offsets\"}", "mode offsets needs offsets"},
        {"{\"mode\": \"offsets\", \"offsets\": [0.5]}", "offsets: number 1 must be a whole one"},
        {"{\"mode\": \"variable\", \"local_window_blocks\": [0]}", "local_window_blocks: number 1 must be a whole one"},
        {"{\"mode\": \"variable\", \"local_window_blocks\": []}", "local_window_blocks is empty"},
        {"{\"mode\": \"variable\", \"global_block_indices\": 3}", "global_block_indices must be a list of at most 64"},
        {"{\"mode\": \"bslongformer\", \"global_block_end_indices\": [1, 2]}", "1 global_block_indices, but 2"},
        {"{\"mode\": \"bslongformer\", \"global_block_indices\": [3], \"global_block_end_indices\": [3]}",
         "from 3 up to but not including 3 are none"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        tri_pattern p;
        tri_json *json = json_of(rows[k].json);
        tri_status status = tri__pattern_parse(json, "here", &p);
        if (status != TRI_USAGE || !strstr(tri_error(), rows[k].words))
            fail_msg("%s: %d, \"%s\", not \"%s\"", rows[k].json, status, tri_error(), rows[k].words);
        tri__json_decref(json);
    }
    static const struct { const char *json; int64_t max_len; const char *words; } lengths[] = {
        {"{\"mode\": \"offsets\", \"offsets\": [1, -3]}", 512, "here: block row 0 (queries 0 to 63) has no block of"},
        {"{\"mode\": \"offsets\", \"offsets\": [-1, 2], \"global_block_indices\": [1]}", 512, "block row 0"},
        {"{\"mode\": \"bigbird\", \"num_random_blocks\": 9}", 128, "num_random_blocks is 9, but max_sen_len 128 has "
         "only 8 blocks of 16 tokens"},
    };
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        tri_pattern p = pattern_of(lengths[k].json);
        tri_status status = tri__pattern_check(&p, "here", lengths[k].max_len, 4);
        if (status != TRI_USAGE || !strstr(tri_error(), lengths[k].words))
            fail_msg("%s: %d, \"%s\", not \"%s\"", lengths[k].json, status, tri_error(), lengths[k].words);
    }
    tri_pattern p;
    assert_int_equal(tri__pattern_load("no/such/file.json", &p), TRI_NOINPUT);
    assert_non_null(strstr(tri_error(), "no pattern and no file is called no/such/file.json"));
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
