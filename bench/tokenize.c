/* tokenize.c - how fast texts become ids: all titles and texts of ../shared/data/reviews, with the tokenizers of
 * ../shared/tokenizers.
 *
 *   tokenize          a table: one thread, two threads, medians
 *   tokenize FOLDER   for each number of threads on stdin: a line with seconds and the ids' count and sum; used by
 *                     bench/tokenizing.py */
#include "base/file.h"
#include "data/table/table.h"
#include "data/text/tokenizer.h"

#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LEN = 4096, TURNS = 7, FILES = 3 };

static tri_table *table[FILES];

typedef struct result {
    double seconds;
    long long ids, sum;
} result;

static result encode_all(const tri_tokenizer *tokenizer, int threads) {
    static const char *const columns[] = {"Title", "Review Text"};
    result all = {0};
    long long ids = 0, sum = 0;
    double begin = tri__clock();
    for (int f = 0; f < FILES; f++) {
        int column[2];
        for (int c = 0; c < 2; c++)
            if (tri__table_find(table[f], columns[c], &column[c]) != TRI_OK) exit(1);
#pragma omp parallel for schedule(dynamic, 64) num_threads(threads) reduction(+ : ids, sum)
        for (int64_t row = 0; row < tri__table_rows(table[f]); row++) {
            int32_t out[MAX_LEN];
            for (int c = 0; c < 2; c++) {
                tri_field_text field = tri__table_field(table[f], row, column[c]);
                int n = tri__tokenizer_encode(tokenizer, field.text, field.length, MAX_LEN, out);
                for (int i = 0; i < n; i++) sum += out[i];
                ids += n;
            }
        }
    }
    all.seconds = tri__clock() - begin;
    all.ids = ids, all.sum = sum;
    return all;
}

static double median(const tri_tokenizer *tokenizer, int threads, long long *ids) {
    double seconds[TURNS];
    for (int i = 0; i < TURNS; i++) {
        result all = encode_all(tokenizer, threads);
        seconds[i] = all.seconds, *ids = all.ids;
    }
    qsort(seconds, TURNS, sizeof *seconds, bench_ascending);
    return seconds[TURNS / 2];
}

static tri_tokenizer *load(const char *folder) {
    tri_tokenizer *tokenizer;
    if (tri__tokenizer_load(folder, &tokenizer) == TRI_OK) return tokenizer;
    fprintf(stderr, "%s\n", tri_error());
    exit(1);
}

static void print_table(void) {
    static const char *const names[] = {"bert-base-cased", "bert-base-uncased", "roberta-base"};
    printf("%-20s %12s %14s %14s\n", "tokenizer", "ids", "1 thread", "2 threads");
    for (int i = 0; i < 3; i++) {
        char folder[128];
        long long ids = 0;
        snprintf(folder, sizeof folder, "../shared/tokenizers/%s", names[i]);
        tri_tokenizer *tokenizer = load(folder);
        double one = median(tokenizer, 1, &ids), two = median(tokenizer, 2, &ids);
        printf("%-20s %12lld %8.1f Mid/s %8.1f Mid/s\n", names[i], ids, (double)ids / one / 1e6,
               (double)ids / two / 1e6);
        tri__tokenizer_free(tokenizer);
    }
}

static void answer(const char *folder) {
    char line[32];
    tri_tokenizer *tokenizer = load(folder);
    while (fgets(line, sizeof line, stdin)) {
        result all = encode_all(tokenizer, atoi(line) > 0 ? atoi(line) : 1);
        printf("%.9f %lld %lld\n", all.seconds, all.ids, all.sum);
        fflush(stdout);
    }
    tri__tokenizer_free(tokenizer);
}

int main(int argc, char **argv) {
    static const char *const files[FILES] = {"../shared/data/reviews/train.csv", "../shared/data/reviews/valid.csv",
                                             "../shared/data/reviews/test.csv"};
    if (!tri__is_file(files[0]) || !tri__is_folder("../shared/tokenizers")) {
        puts("skipped: ../shared is not here");
        return 0;
    }
    for (int f = 0; f < FILES; f++)
        if (tri__table_open(files[f], NULL, &table[f]) != TRI_OK) return fprintf(stderr, "%s\n", tri_error()), 1;
    if (argc > 1) answer(argv[1]);
    else print_table();
    for (int f = 0; f < FILES; f++) tri__table_close(table[f]);
    return 0;
}
