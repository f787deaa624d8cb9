/* test_sampler.c - the order of rows, the split into parts, and the maxima that size buffers. */
#include "base/clock.h"
#include "data/dataset/sampler.h"

#include <signal.h>

#include "tests/lib/test.h"
#include "tests/lib/made_dataset.h"

static int64_t tokens_of(const tri_dataset *data, int64_t row) {
    int64_t tokens = 0;
    for (int t = 0; t < data->n_texts; t++) tokens += data->text[t].start[row + 1] - data->text[t].start[row];
    return tokens;
}

static tri_sampler open_sampler(const tri_dataset *data, int64_t batch, int parts, int shuffle, uint32_t seed) {
    tri_sampler sampler;
    assert_int_equal(tri__sampler_open(&sampler, data, batch, parts, shuffle, seed), TRI_OK);
    return sampler;
}

/* Orders computed by a Philox and a Fisher-Yates written apart, in Python. */
TEST(shuffles_as_described) {
    static const struct {
        uint32_t seed;
        int epoch;
        int64_t order[10];
    } cases[] = {
        {42, 0, {8, 4, 0, 3, 2, 5, 6, 1, 7, 9}},
        {42, 1, {5, 4, 1, 9, 0, 8, 6, 2, 3, 7}},
        {7, 0, {9, 8, 6, 1, 3, 4, 2, 0, 5, 7}},
    };
    tri_dataset *data = made_dataset(10, 1, 0, 5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_sampler sampler = open_sampler(data, 10, 1, 1, cases[i].seed);
        const int64_t *rows;
        assert_int_equal(tri__sampler_batch(&sampler, cases[i].epoch, 0, &rows), 10);
        assert_memory_equal(rows, cases[i].order, sizeof cases[i].order);
        tri__sampler_close(&sampler);
    }
    made_dataset_free(data);
}

TEST(gives_every_row_once) {
    static const int64_t sizes[][2] = {{1, 1}, {1, 8}, {7, 3}, {64, 64}, {1000, 32}, {1001, 1001}, {5, 100}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            int64_t n = sizes[i][0], batch = sizes[i][1];
            tri_dataset *data = made_dataset(n, 2, 0, 30);
            tri_sampler sampler = open_sampler(data, batch, 3, shuffle, 42);
            assert_int_equal(tri__sampler_batches(&sampler), (n + batch - 1) / batch);
            for (int64_t epoch = 0; epoch < 3; epoch++) {
                char *seen = calloc((size_t)n, 1);
                int64_t total = 0;
                for (int64_t k = 0; k < tri__sampler_batches(&sampler); k++) {
                    const int64_t *rows;
                    int64_t count = tri__sampler_batch(&sampler, epoch, k, &rows);
                    assert_true(count == batch || k == tri__sampler_batches(&sampler) - 1);
                    for (int64_t j = 0; j < count; j++) {
                        if (!shuffle) assert_int_equal(rows[j], total + j);
                        assert_int_equal(seen[rows[j]]++, 0);
                    }
                    total += count;
                }
                assert_int_equal(total, n);
                free(seen);
            }
            tri__sampler_close(&sampler);
            made_dataset_free(data);
        }
}

/* Batches do not depend on the parts, nor on which were asked for before. */
TEST(resumes_anywhere) {
    tri_dataset *data = made_dataset(500, 2, 0, 30);
    tri_sampler one = open_sampler(data, 32, 1, 1, 9), four = open_sampler(data, 32, 4, 1, 9);
    for (int64_t epoch = 4; epoch >= 0; epoch--)
        for (int64_t k = tri__sampler_batches(&one) - 1; k >= 0; k -= 3) {
            tri_sampler fresh = open_sampler(data, 32, 2, 1, 9);
            const int64_t *a, *b, *c;
            int64_t n = tri__sampler_batch(&one, epoch, k, &a);
            assert_int_equal(tri__sampler_batch(&four, epoch, k, &b), n);
            assert_int_equal(tri__sampler_batch(&fresh, epoch, k, &c), n);
            assert_memory_equal(a, b, (size_t)n * sizeof *a);
            assert_memory_equal(a, c, (size_t)n * sizeof *a);
            tri__sampler_close(&fresh);
        }
    tri__sampler_close(&one);
    tri__sampler_close(&four);
    made_dataset_free(data);
}

/* The rule of sampler.h, word for word and slowly. */
static void split_plainly(const tri_dataset *data, const int64_t *rows, int64_t n, int parts, int32_t *part) {
    int64_t sum[64] = {0};
    for (int64_t i = 0; i < n; i++) part[i] = -1;
    for (int64_t done = 0; done < n; done++) {
        int64_t next = -1;
        for (int64_t i = 0; i < n; i++) {
            if (part[i] >= 0) continue;
            int64_t a = tokens_of(data, rows[i]), b = next < 0 ? -1 : tokens_of(data, rows[next]);
            if (a > b || (a == b && rows[i] < rows[next])) next = i;
        }
        int least = 0;
        for (int p = 1; p < parts; p++)
            if (sum[p] < sum[least]) least = p;
        part[next] = least;
        sum[least] += tokens_of(data, rows[next]);
    }
}

TEST(splits_greedily) {
    tri_dataset *data = made_dataset(300, 2, 0, 23);
    for (int parts = 1; parts <= 40; parts += 3) {
        tri_sampler sampler = open_sampler(data, 48, parts, 1, 1);
        for (int64_t k = 0; k < tri__sampler_batches(&sampler); k++) {
            const int64_t *rows;
            int32_t got[48], want[48];
            int64_t n = tri__sampler_batch(&sampler, 2, k, &rows), sum[64] = {0}, low = INT64_MAX, high = 0,
                    longest = 0;
            tri__sampler_split(&sampler, rows, n, got);
            split_plainly(data, rows, n, parts, want);
            assert_memory_equal(got, want, (size_t)n * sizeof *got);
            for (int64_t i = 0; i < n; i++) {
                sum[got[i]] += tokens_of(data, rows[i]);
                if (tokens_of(data, rows[i]) > longest) longest = tokens_of(data, rows[i]);
            }
            for (int p = 0; p < parts; p++) {
                if (sum[p] < low) low = sum[p];
                if (sum[p] > high) high = sum[p];
            }
            assert_true(high - low <= longest); /* balanced to within one row */
        }
        tri__sampler_close(&sampler);
    }
    made_dataset_free(data);
}

TEST(measures_the_largest) {
    tri_dataset *data = made_dataset(333, 2, 0, 19);
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        tri_sampler sampler = open_sampler(data, 20, 3, shuffle, 5);
        tri_sampler_maxima got, want = {0};
        tri__sampler_maxima(&sampler, 4, &got);
        for (int64_t epoch = 0; epoch < 4; epoch++)
            for (int64_t k = 0; k < tri__sampler_batches(&sampler); k++) {
                const int64_t *rows;
                int32_t part[20];
                int64_t n = tri__sampler_batch(&sampler, epoch, k, &rows);
                tri__sampler_split(&sampler, rows, n, part);
                for (int p = 0; p < 3; p++) {
                    tri_sampler_maxima sum = {0};
                    for (int64_t i = 0; i < n; i++) {
                        if (part[i] != p) continue;
                        sum.rows++;
                        for (int t = 0; t < 2; t++) {
                            int64_t tokens = data->text[t].start[rows[i] + 1] - data->text[t].start[rows[i]];
                            sum.tokens[t] += tokens;
                            if (!want.shortest[t] || tokens < want.shortest[t]) want.shortest[t] = tokens;
                        }
                    }
                    if (sum.rows > want.rows) want.rows = sum.rows;
                    for (int t = 0; t < 2; t++)
                        if (sum.tokens[t] > want.tokens[t]) want.tokens[t] = sum.tokens[t];
                }
            }
        assert_memory_equal(&got, &want, sizeof got);
        tri__sampler_close(&sampler);
    }
    made_dataset_free(data);
}

/* Of a long run, bounds: above every microbatch of any order, in no time, and not far above. */
TEST(bounds_long_runs) {
    static const struct {
        int64_t rows, batch;
        int parts, texts;
    } cases[] = {{333, 20, 3, 2}, {333, 20, 1, 2}, {50, 64, 4, 1}, {97, 7, 16, 2}, {1000, 256, 8, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_dataset *data = made_dataset(cases[i].rows, cases[i].texts, 0, 60);
        tri_sampler sampler = open_sampler(data, cases[i].batch, cases[i].parts, 1, 5);
        tri_sampler_maxima walked, got;
        assert_int_equal(tri__sampler_maxima(&sampler, 300, &walked), TRI_OK);
        double begin = tri__clock();
        assert_int_equal(tri__sampler_maxima(&sampler, 1000000000, &got), TRI_OK);
        assert_true(tri__clock() - begin < 1); /* a millisecond; an hour if it walked */
        assert_true(!walked.bounded && got.bounded);
        assert_true(got.rows >= walked.rows && got.rows <= cases[i].batch && got.rows <= cases[i].rows);
        for (int t = 0; t < 2; t++) {
            assert_true(got.tokens[t] >= walked.tokens[t]);
            assert_true(got.tokens[t] <= 4 * walked.tokens[t] && got.shortest[t] == walked.shortest[t]);
        }
        tri__sampler_close(&sampler);
        made_dataset_free(data);
    }
}

TEST(stops) {
    tri_dataset *data = made_dataset(333, 2, 0, 19);
    tri_stop stop = {.signal = SIGTERM};
    tri_sampler sampler = open_sampler(data, 20, 3, 1, 5);
    tri_sampler_maxima got;
    sampler.stop = &stop;
    assert_int_equal(tri__sampler_maxima(&sampler, 40000, &got), TRI_STOPPED);
    tri__sampler_close(&sampler);
    made_dataset_free(data);
}

TEST(is_fast) {
    tri_dataset *data = made_dataset(19000, 2, 0, 160);
    double begin = tri__clock();
    tri_sampler sampler = open_sampler(data, 4096, 512, 1, 5);
    tri_sampler_maxima maxima;
    tri__sampler_maxima(&sampler, 10, &maxima);
    print_message("10 epochs of 19,000 rows: %.3f s\n", tri__clock() - begin);
    assert_true(tri__clock() - begin < 5); /* 0.1 s; room for sanitizers on a busy machine */
    tri__sampler_close(&sampler);
    made_dataset_free(data);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
