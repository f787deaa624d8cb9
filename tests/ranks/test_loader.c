/* test_loader.c - the content of batches, independent of timing and number of threads; resuming; closing at any
 * moment. */
#include "data/dataset/loader.h"

#include <time.h>

#include "tests/lib/test.h"
#include "tests/lib/made_dataset.h"

static const double class_weights[2] = {0.25, 3.5};
enum { GRANULE = 8, PAD = 151 }; /* PAD: the second token of row 1's second text */

static tri_loader *open_loader(tri_sampler *sampler, int64_t epochs, int64_t first_epoch, int64_t first_batch,
                               int workers) {
    tri_loader_spec spec = {.sampler = sampler, .class_weights = class_weights, .micro.position_base = {0, PAD + 1},
                            .first_epoch = first_epoch, .first_batch = first_batch, .epochs = epochs,
                            .workers = workers, .micro.granule = GRANULE};
    tri__sampler_maxima(sampler, epochs, &spec.maxima);
    tri_loader *loader;
    assert_int_equal(tri__loader_open(&spec, &loader), TRI_OK);
    return loader;
}

static const tri_batch *next(tri_loader *loader, double *waited) {
    const tri_batch *batch;
    assert_int_equal(tri__loader_next(loader, &batch, waited), TRI_OK);
    return batch;
}

/* A part against the data it was made of. */
static void check_part(const tri_dataset *data, const tri_micro *part) {
    static const int base[2] = {0, PAD + 1};
    for (int t = 0; t < 2; t++) {
        if (t >= data->n_texts) {
            assert_true(!part->ids[t] && !part->pos[t] && !part->key[t] && !part->seq[t]);
            continue;
        }
        double squares = 0;
        assert_int_equal(part->seq[t][0], 0);
        for (int64_t i = 0; i < part->n; i++) {
            int64_t row = part->row[i], length = data->text[t].start[row + 1] - data->text[t].start[row];
            assert_int_equal(part->seq[t][i + 1] - part->seq[t][i], length);
            int pad = base[t] - 1, counted = 0;
            for (int64_t k = 0; k < length; k++) {
                int64_t at = part->seq[t][i] + k;
                assert_int_equal(part->ids[t][at], made_id(row, t, k));
                assert_int_equal(part->pos[t][at], part->ids[t][at] == pad ? pad : base[t] + counted++);
                assert_int_equal(part->key[t][2 * at], row);
                assert_int_equal(part->key[t][2 * at + 1], k);
            }
            squares += (double)(length * length);
        }
        assert_int_equal(part->seq[t][part->n], part->tokens[t]);
        assert_true(part->squares[t] == squares);
    }
    for (int64_t i = 0; i < part->n; i++) {
        assert_int_equal(part->labels[i], data->labels ? data->labels[part->row[i]] : 0);
        assert_int_equal(part->keyn[2 * i], part->row[i]);
        assert_int_equal(part->keyn[2 * i + 1], 0);
        for (int c = 0; c < data->n_columns; c++)
            assert_true(part->numbers[i * data->n_columns + c] == made_number(data, part->row[i], c));
    }
}

/* Up to the granule there are zeros, whatever was there before. */
static void check_rest(const tri_dataset *data, const tri_micro *part) {
    for (int t = 0; t < data->n_texts; t++)
        for (int64_t at = part->tokens[t]; at % GRANULE; at++)
            assert_true(!part->ids[t][at] && !part->pos[t][at] && !part->key[t][2 * at] && !part->key[t][2 * at + 1]);
}

/* A batch against a sampler of the test's own. */
static void check_batch(tri_sampler *mine, const tri_batch *batch, int64_t epoch, int64_t index) {
    const int64_t *rows;
    int32_t part[256];
    assert_int_equal(batch->epoch, epoch);
    assert_int_equal(batch->index, index);
    assert_int_equal(batch->parts, mine->parts);
    assert_int_equal(batch->n, tri__sampler_batch(mine, epoch, index, &rows));
    tri__sampler_split(mine, rows, batch->n, part);
    int64_t at[16] = {0}, tokens = 0;
    double weight = 0;
    for (int64_t i = 0; i < batch->n; i++) {
        assert_int_equal(batch->part[part[i]].row[at[part[i]]++], rows[i]); /* parts keep the batch's order */
        weight += class_weights[mine->data->labels ? mine->data->labels[rows[i]] : 0];
    }
    assert_true(batch->weight == weight);
    for (int p = 0; p < batch->parts; p++) {
        assert_int_equal(batch->part[p].n, at[p]);
        check_part(mine->data, &batch->part[p]);
        check_rest(mine->data, &batch->part[p]);
        tokens += batch->part[p].tokens[0] + batch->part[p].tokens[1];
    }
    assert_int_equal(batch->tokens, tokens);
}

/* Texts that share an encoder: all sequences of the first, then those of the next, whose places in keys lie behind
 * those of the texts before; with and without windows. */
static void check_joined(const tri_dataset *data, const tri_micro *m, int encoder) {
    const tri_windows *w = &data->windows;
    int64_t sequence = 0, at = 0;
    for (int t = 0, before = 0; t < data->n_texts; t++) {
        if (w->readers.of[t] != encoder) continue;
        assert_true(t == encoder || (m->tokens[t] == 0 && m->windows[t] == 0));
        for (int64_t i = 0; i < m->n; i++) {
            int64_t row = m->row[i], length = data->text[t].start[row + 1] - data->text[t].start[row];
            tri_packed packed = tri__windows_packed(w, length);
            assert_int_equal(m->win[t][i], sequence);
            assert_int_equal(m->win[t][i + 1], sequence + packed.windows);
            for (int64_t k = 0; k < packed.windows; k++, sequence++) {
                int64_t place = before * w->most * w->max_len + k * w->max_len;
                assert_int_equal(m->seq[encoder][sequence], at);
                assert_int_equal(m->ids[encoder][at], made_id(row, t, 0)); /* each begins as the text */
                assert_int_equal(m->pos[encoder][at], encoder ? PAD + 1 : 0);
                assert_int_equal(m->key[encoder][2 * at], row);
                assert_int_equal(m->key[encoder][2 * at + 1], place);
                assert_int_equal(m->keyw[encoder][2 * sequence], row);
                assert_int_equal(m->keyw[encoder][2 * sequence + 1], place);
                at += k + 1 < packed.windows ? w->max_len : length - k * w->stride;
                assert_int_equal(m->key[encoder][2 * at - 1], place + at - 1 - m->seq[encoder][sequence]);
            }
        }
        before++;
    }
    assert_true(m->tokens[encoder] == at && m->windows[encoder] == sequence && m->seq[encoder][sequence] == at);
}

TEST(texts_are_joined) {
    static const struct {
        int texts;
        tri_readers readers;
    } forms[] = {{2, {1, {0}}}, {3, {1, {0}}}, {5, {1, {0, 1, 1, 0, 1}}}};
    for (int form = 0; form < 6; form++) {
        int most = form < 3 ? 1 : 3, max_len = most > 1 ? 6 : 32, stride = 3;
        tri_dataset *data = made_dataset(23, forms[form % 3].texts, 1, 11); /* up to 12 tokens: three windows */
        tri_sampler sampler;
        data->windows = (tri_windows){.most = most, .max_len = max_len, .stride = stride, .before = {1, 1},
                                      .after = {1, 1}, .readers = forms[form % 3].readers};
        assert_int_equal(tri__sampler_open(&sampler, data, 10, 2, 1, 3), TRI_OK);
        tri_loader *loader = open_loader(&sampler, 1, 0, 0, 1);
        for (const tri_batch *batch; (batch = next(loader, NULL));)
            for (int p = 0; p < batch->parts; p++)
                for (int e = 0; e < 1 + (form % 3 == 2); e++) check_joined(data, &batch->part[p], e);
        tri__loader_close(loader);
        tri__sampler_close(&sampler);
        made_dataset_free(data);
    }
}

/* Three replicas of two microbatches: each loader fills its own parts of the same batches, and knows the whole batch's
 * figures. */
TEST(replicas_share_a_batch) {
    tri_dataset *data = made_dataset(53, 2, 3, 17);
    tri_sampler mine;
    assert_int_equal(tri__sampler_open(&mine, data, 10, 6, 1, 3), TRI_OK);
    for (int replica = 0; replica < 3; replica++) {
        tri_sampler sampler;
        tri_loader *loader;
        assert_int_equal(tri__sampler_open(&sampler, data, 10, 6, 1, 3), TRI_OK);
        tri_loader_spec spec = {.sampler = &sampler, .class_weights = class_weights,
                                .micro.position_base = {0, PAD + 1}, .epochs = 1, .first_part = 2 * replica,
                                .parts = 2};
        tri__sampler_maxima(&sampler, 1, &spec.maxima);
        assert_int_equal(tri__loader_open(&spec, &loader), TRI_OK);
        for (int64_t k = 0; k < tri__sampler_batches(&mine); k++) {
            const tri_batch *batch = next(loader, NULL);
            const int64_t *rows;
            int32_t part[16];
            int64_t n = tri__sampler_batch(&mine, 0, k, &rows), at[2] = {0}, tokens = 0;
            double weight = 0;
            tri__sampler_split(&mine, rows, n, part);
            assert_int_equal(batch->n, n);
            assert_int_equal(batch->parts, 2);
            for (int64_t i = 0; i < n; i++) {
                int p = part[i] - 2 * replica;
                if (p >= 0 && p < 2) assert_int_equal(batch->part[p].row[at[p]++], rows[i]);
                weight += class_weights[data->labels[rows[i]]];
                for (int t = 0; t < 2; t++) tokens += data->text[t].start[rows[i] + 1] - data->text[t].start[rows[i]];
            }
            for (int p = 0; p < 2; p++) {
                assert_int_equal(batch->part[p].n, at[p]);
                check_part(data, &batch->part[p]);
            }
            assert_true(batch->weight == weight);
            assert_int_equal(batch->tokens, tokens);
        }
        assert_null(next(loader, NULL));
        tri__loader_close(loader);
        tri__sampler_close(&sampler);
    }
    tri__sampler_close(&mine);
    made_dataset_free(data);
}

static void pause_a_little(long microseconds) {
    struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

static void run(const tri_dataset *data, int64_t size, int parts, int shuffle, int64_t first_epoch, int64_t first_batch,
                int workers, int slow) {
    tri_sampler sampler, mine;
    assert_int_equal(tri__sampler_open(&sampler, data, size, parts, shuffle, 3), TRI_OK);
    assert_int_equal(tri__sampler_open(&mine, data, size, parts, shuffle, 3), TRI_OK);
    tri_loader *loader = open_loader(&sampler, 3, first_epoch, first_batch, workers);
    int64_t k = first_batch;
    for (int64_t epoch = first_epoch; epoch < 3; epoch++, k = 0)
        for (; k < tri__sampler_batches(&mine); k++) {
            double waited = -1;
            const tri_batch *batch = next(loader, &waited);
            assert_non_null(batch);
            assert_true(waited >= 0);
            if (slow && k % 4 == 0) pause_a_little(500); /* the thread is far ahead: it must not touch this batch */
            check_batch(&mine, batch, epoch, k);
        }
    assert_null(next(loader, NULL));
    assert_null(next(loader, NULL));
    tri__loader_close(loader);
    tri__sampler_close(&sampler);
    tri__sampler_close(&mine);
}

TEST(batches_hold_what_they_should) {
    tri_dataset *both = made_dataset(203, 2, 3, 17), *one = made_dataset(90, 1, 0, 9);
    for (int parts = 1; parts <= 5; parts += 2)
        for (int shuffle = 0; shuffle < 2; shuffle++)
            for (int slow = 0; slow < 2; slow++) {
                run(both, 16, parts, shuffle, 0, 0, 0, slow);
                run(one, 16, parts, shuffle, 0, 0, 1, slow);
            }
    for (int workers = 2; workers <= 9; workers++) { /* more of them than an epoch has batches, too */
        run(both, 16, 2, 1, 0, 0, workers, workers % 2);
        run(one, 50, 3, 1, 0, 0, workers, 0);
        run(one, 1000, 1, 1, 0, 0, workers, 0);
    }
    run(one, 3, 5, 1, 0, 0, 3, 0); /* more parts than rows */
    free(one->labels);
    one->labels = NULL;
    run(one, 16, 2, 1, 0, 0, 2, 0);
    made_dataset_free(both);
    made_dataset_free(one);
}

/* Texts as overlapping windows, each with the text's special tokens, against a plain loop; before and after differ, and
 * the second text has none after. A row's text is ids 0, 1, ... after an offset: made_id. */
static void check_windows(const tri_dataset *data, const tri_micro *part, int t) {
    const tri_windows *w = &data->windows;
    int64_t before = w->before[t], after = w->after[t], size = w->max_len - before - after, window = 0, at = 0;
    double squares = 0;
    for (int64_t i = 0; i < part->n; i++) {
        int64_t row = part->row[i], length = data->text[t].start[row + 1] - data->text[t].start[row];
        int64_t content = length - before - after, done = 0;
        assert_int_equal(part->win[t][i], window);
        for (int64_t k = 0; done < content || k == 0; k++, window++) {
            int64_t from = k * w->stride, n = content - from < size ? content - from : size, place = 0;
            assert_int_equal(part->seq[t][window], at);
            assert_int_equal(part->keyw[t][2 * window], row);
            assert_int_equal(part->keyw[t][2 * window + 1], k * w->max_len);
            for (; place < before + n + after; place++, at++) {
                int64_t of = place < before       ? place
                             : place < before + n ? from + place
                                                  : content + place - n; /* in the whole text */
                assert_int_equal(part->ids[t][at], made_id(row, t, of));
                assert_int_equal(part->pos[t][at], place);
                assert_int_equal(part->key[t][2 * at], row);
                assert_int_equal(part->key[t][2 * at + 1], k * w->max_len + place);
            }
            squares += (double)(place * place);
            done = from + n;
            assert_true(k < w->most);
        }
    }
    assert_true(part->win[t][part->n] == window && part->windows[t] == window);
    assert_true(part->seq[t][window] == at && part->tokens[t] == at && part->squares[t] == squares);
}

TEST(long_texts_become_windows) {
    tri_dataset *data = made_dataset(57, 2, 1, 39); /* 2 to 40 ids */
    data->windows = (tri_windows){.most = 5, .max_len = 12, .stride = 7, .before = {1, 2}, .after = {1, 0}};
    tri_sampler sampler;
    assert_int_equal(tri__sampler_open(&sampler, data, 20, 3, 1, 5), TRI_OK);
    tri_loader_spec spec = {.sampler = &sampler, .epochs = 2};
    tri__sampler_maxima(&sampler, 2, &spec.maxima);
    tri_sampler_maxima found = {0};
    tri_loader *loader;
    assert_int_equal(tri__loader_open(&spec, &loader), TRI_OK);
    for (const tri_batch *batch; (batch = next(loader, NULL));) {
        int64_t tokens = 0;
        for (int p = 0; p < batch->parts; p++)
            for (int t = 0; t < 2; t++) {
                const tri_micro *part = &batch->part[p];
                check_windows(data, part, t);
                tokens += part->tokens[t];
                if (part->tokens[t] > found.tokens[t]) found.tokens[t] = part->tokens[t];
                if (part->windows[t] > found.windows[t]) found.windows[t] = part->windows[t];
            }
        assert_int_equal(batch->tokens, tokens);
    }
    for (int t = 0; t < 2; t++) { /* the dry run's maxima are met, not only kept */
        assert_int_equal(found.tokens[t], spec.maxima.tokens[t]);
        assert_int_equal(found.windows[t], spec.maxima.windows[t]);
    }
    tri__loader_close(loader);
    tri__sampler_close(&sampler);
    made_dataset_free(data);
}

TEST(resumes_in_the_middle) {
    tri_dataset *data = made_dataset(203, 2, 1, 17);
    static const int64_t from[][2] = {{0, 5}, {1, 0}, {2, 12}, {1, 13}, {2, 13}, {3, 0}};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        for (int workers = 1; workers < 5; workers++) run(data, 16, 2, 1, from[i][0], from[i][1], workers, 0);
    made_dataset_free(data);
}

TEST(an_empty_table_has_no_batches) {
    tri_dataset *data = made_dataset(0, 1, 1, 5);
    run(data, 4, 1, 1, 0, 0, 3, 0);
    made_dataset_free(data);
}

TEST(closes_at_any_moment) {
    tri_dataset *data = made_dataset(203, 2, 3, 17);
    tri_sampler sampler;
    assert_int_equal(tri__sampler_open(&sampler, data, 16, 2, 1, 3), TRI_OK);
    for (int round = 0; round < 60; round++) {
        tri_loader *loader = open_loader(&sampler, 3, 0, 0, 1 + round % 4);
        for (int i = 0; i < round % 6; i++) assert_non_null(next(loader, NULL));
        if (round % 3 == 0) pause_a_little(200);
        tri__loader_close(loader);
    }
    tri__loader_close(NULL);
    tri__sampler_close(&sampler);
    made_dataset_free(data);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
