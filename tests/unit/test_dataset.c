/* test_dataset.c - tables to datasets: equal for any number of threads, in memory or from a store; labels at
 * evaluation; skipped rows; stores that are reused, rebuilt when damaged, built concurrently, and never larger in
 * memory than their rows need. */
#include "base/file.h"
#include "data/dataset/dataset.h"
#include "data/dataset/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"

static char folder[64], path[96], cache[96];
static tri_tokenizer *both[2];

static int make_folder(void **state) {
    (void)state;
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n##a\n##b\n";
    char file[128];
    snprintf(folder, sizeof folder, "/tmp/trident-dataset-%ld", (long)getpid());
    snprintf(path, sizeof path, "%s/table.csv", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(file, sizeof file, "%s/vocab.txt", folder);
    if (mkdir(folder, 0700) || tri__file_write(file, vocabulary, sizeof vocabulary - 1) != TRI_OK) return -1;
    if (tri__tokenizer_load(folder, &both[0]) != TRI_OK) return -1;
    both[1] = both[0];
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    tri__tokenizer_free(both[0]);
    return tri__folder_remove(folder) != TRI_OK;
}

static void write_table(const char *text) { assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK); }

/* What a dataset says, one line after another. */
static char said[8192];
static void hear(void *context, tri_log_level level, const char *text) {
    (void)context, (void)level;
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s\n", text);
}
static const tri_log ears = {.say = hear};

static void assert_said(const char *want) {
    if (!strstr(said, want)) fail_msg("\"%s\" does not say \"%s\"", said, want);
}

static void assert_error(const char *want) {
    if (!strstr(tri_error(), want)) fail_msg("\"%s\" does not say \"%s\"", tri_error(), want);
}

static char *names[] = {"text", "title", "x", "y"};
static tri_preprocess_spec fit_spec(int texts, int n_columns) {
    return (tri_preprocess_spec){.label_name = "label",
                                 .text = {{names, 1}, {names + 1, texts - 1}},
                                 .columns = {names + 2, n_columns},
                                 .n_classes = 2};
}

static tri_dataset_spec data_spec(int threads, const char *in) {
    return (tri_dataset_spec){.path = path,
                              .tokenizer = both,
                              .max_len = 16,
                              .need_labels = 1,
                              .threads = threads,
                              .cache = in,
                              .log = &ears};
}

static tri_dataset *open_fit(const tri_dataset_spec *spec, const tri_preprocess_spec *fit,
                             tri_preprocess **preprocess) {
    tri_dataset *data;
    said[0] = 0;
    if (tri__dataset_fit(spec, fit, preprocess, &data) != TRI_OK) fail_msg("%s", tri_error());
    return data;
}

static void assert_equal(const tri_dataset *a, const tri_dataset *b) {
    assert_true(a->n == b->n && a->n_texts == b->n_texts && a->n_columns == b->n_columns && a->n_bad == b->n_bad);
    for (int t = 0; t < a->n_texts; t++) {
        assert_memory_equal(a->text[t].start, b->text[t].start, (size_t)(a->n + 1) * sizeof(int64_t));
    }
    for (int64_t row = 0; row < a->n; row++) {
        int32_t ids[2][16];
        float numbers[2][8];
        for (int t = 0; t < a->n_texts; t++) {
            assert_true(tri__dataset_ids(a, t, row, ids[0]) == TRI_OK && tri__dataset_ids(b, t, row, ids[1]) == TRI_OK);
            assert_memory_equal(ids[0], ids[1],
                                (size_t)(a->text[t].start[row + 1] - a->text[t].start[row]) * sizeof(int32_t));
        }
        assert_true(tri__dataset_numbers(a, row, numbers[0]) == TRI_OK &&
                    tri__dataset_numbers(b, row, numbers[1]) == TRI_OK);
        assert_memory_equal(numbers[0], numbers[1], (size_t)a->n_columns * sizeof(float));
    }
    assert_true(a->digest == b->digest);
    assert_memory_equal(a->labels, b->labels, (size_t)a->n * sizeof(int32_t));
    assert_int_equal(a->n_described, b->n_described);
    for (int i = 0; i < a->n_described; i++) {
        assert_true(a->bad[i].line == b->bad[i].line && a->bad[i].column == b->bad[i].column);
        assert_string_equal(a->bad[i].why, b->bad[i].why);
    }
}

/* Rows of two texts, a number that is sometimes missing, a category, a label. With `bad`, some cannot be read. */
enum { ROWS = 9000 };
static void write_rows(int bad) {
    static const char *const parts[] = {"a", "b", " ", "ab"}, *const colours[] = {"red", "green", "blue", ""};
    char *text = malloc(ROWS * 160), *to = text + sprintf(text, "text,title,x,y,label\n");
    for (int i = 0; i < ROWS; i++) {
        *to++ = '"';
        for (int k = 0; k < (i * 7) % 40; k++) to += sprintf(to, "%s", parts[(i + k) % 4]);
        to += sprintf(to, "\",%s,", i % 3 ? "a b" : "");
        if (bad && i % 97 == 5) to += sprintf(to, "many,");
        else if (i % 5) to += sprintf(to, "%d,", i % 10);
        else to += sprintf(to, ",");
        to += sprintf(to, "%s,", colours[i % 4]);
        if (bad && i % 89 == 7) to += sprintf(to, "perhaps\n");
        else to += sprintf(to, "%d%s\n", i % 2, bad && i % 101 == 3 ? ",surplus" : "");
    }
    write_table(text);
    free(text);
}

TEST(is_the_same_for_any_threads_and_any_place) {
    tri_preprocess_spec fit = fit_spec(2, 2);
    tri_preprocess *first, *other;
    write_rows(0);
    tri_dataset_spec spec = data_spec(1, NULL);
    tri_dataset *one = open_fit(&spec, &fit, &first);
    assert_true(one->n == ROWS && one->n_texts == 2 && one->n_columns == 5 && one->memory > 0 && !one->from_store);
    for (int threads = 1; threads <= 4; threads++) {
        spec = data_spec(threads, threads % 2 ? NULL : cache);
        spec.keep = threads == 3; /* bytes: the table's text is read again and again */
        tri_dataset *many = open_fit(&spec, &fit, &other);
        assert_equal(one, many);
        assert_true(threads % 2 ? many->memory == one->memory : many->memory == (2 * (ROWS + 1) * 8 + ROWS * 4));
        tri_json *json[2] = {tri__preprocess_json(first), tri__preprocess_json(other)};
        assert_true(tri__json_equal(json[0], json[1]));
        tri__json_decref(json[0]);
        tri__json_decref(json[1]);
        tri__dataset_close(many);
        tri__preprocess_free(other);
    }
    int64_t longest = 0;
    tri_table *table;
    assert_int_equal(tri__table_open(path, NULL, &table), TRI_OK);
    for (int64_t row = 0; row < ROWS; row++) {
        tri_field_text field = tri__table_field(table, row, 0);
        int32_t ids[16], kept[16];
        float numbers[5];
        int n = tri__tokenizer_encode(both[0], field.text, field.length, 16, ids);
        int64_t start = one->text[0].start[row], length = one->text[0].start[row + 1] - start;
        assert_int_equal(length, n);
        assert_int_equal(tri__dataset_ids(one, 0, row, kept), TRI_OK);
        assert_memory_equal(kept, ids, (size_t)n * sizeof *ids);
        assert_int_equal(one->labels[row], row % 2);
        double x = row % 5 ? (double)(row % 10) : first->column[0].fill;
        assert_int_equal(tri__dataset_numbers(one, row, numbers), TRI_OK);
        assert_true(numbers[0] == (float)((x - first->column[0].mean) / first->column[0].deviation));
        static const int place[] = {2, 1, 0, 3}; /* of red, green, blue, missing among blue, green, red, unknown */
        for (int k = 0; k < 4; k++) assert_true(numbers[1 + k] == (k == place[row % 4]));
        if (length > longest) longest = length;
        if (row % 3 == 0) assert_int_equal(one->text[1].start[row + 1] - one->text[1].start[row], 2); /* [CLS] [SEP] */
    }
    assert_int_equal(longest, 16);
    tri__table_close(table);
    tri__dataset_close(one);
    tri__preprocess_free(first);
    tri__folder_remove(cache);
}

TEST(leaves_out_bad_rows) {
    tri_preprocess_spec fit = fit_spec(2, 2);
    tri_dataset_spec spec = data_spec(1, NULL);
    tri_preprocess *preprocess, *other;
    tri_dataset *data, *one;
    write_rows(1);
    said[0] = 0;
    assert_int_equal(tri__dataset_fit(&spec, &fit, &preprocess, &data), TRI_DATA);
    assert_error("table.csv:5:");
    fit.bad_rows = spec.bad_rows = TRI_BAD_ROWS_SKIP;
    one = open_fit(&spec, &fit, &preprocess);
    int64_t want = 0, kept = 0;
    for (int i = 0; i < ROWS; i++) {
        int bad = i % 97 == 5 || i % 89 == 7 || i % 101 == 3;
        want += bad;
        if (bad) continue;
        assert_int_equal(one->labels[kept], i % 2);
        kept++;
    }
    assert_int_equal(one->n, kept);
    assert_int_equal(one->n_bad, want);
    assert_int_equal(one->n_described, 100);
    static const int64_t lines[] = {5, 7, 9}; /* surplus, many, perhaps: rows 3, 5, 7 below the header */
    for (int i = 0; i < 3; i++) assert_int_equal(one->bad[i].line, lines[i]);
    for (int i = 1; i < 100; i++) assert_true(one->bad[i].line > one->bad[i - 1].line);
    assert_non_null(strstr(one->bad[1].why, "\"many\" in column \"x\" is not a decimal number"));
    assert_non_null(strstr(one->bad[2].why, "\"perhaps\" in column \"label\" is none of the known labels"));
    assert_said("bad rows left out: 5:");
    for (int threads = 2; threads <= 4; threads++)
        for (int again = 0; again < 2; again++) { /* made, then found */
            spec = data_spec(threads, cache);
            spec.bad_rows = TRI_BAD_ROWS_SKIP;
            data = open_fit(&spec, &fit, &other);
            assert_int_equal(data->from_store, again || threads > 2); /* whatever the threads */
            assert_equal(one, data);
            assert_said("bad rows left out: 5:");
            tri__dataset_close(data);
            tri__preprocess_free(other);
        }
    tri_json *json = tri__dataset_bad_json(one);
    assert_int_equal(tri__json_integer_value(tri__json_get(json, "count")), want);
    assert_int_equal(tri__json_size(tri__json_get(json, "first")), 100);
    tri__json_decref(json);
    tri__dataset_close(one);
    tri__preprocess_free(preprocess);
    tri__folder_remove(cache);
}

TEST(knows_labels_at_evaluation) {
    tri_preprocess_spec fit = fit_spec(1, 0);
    tri_preprocess *fitted;
    tri_dataset_spec spec = data_spec(2, NULL);
    write_table("text,label\na,no\nb,yes\n");
    tri__dataset_close(open_fit(&spec, &fit, &fitted));
    static const struct {
        const char *text, *error;
        int needed, labels, bad;
    } cases[] = {
        {"label,text\nyes,a\nno,b\n", NULL, 1, 1, 0},
        {"text,label\na,yes\nb,maybe\n",
         ":3:3: \"maybe\" in column \"label\" is none of the known labels: \"no\", \"yes\"", 1, 0, 1},
        {"text,label\na,yes\nb,\n", ":3:3: \"\" in column \"label\" is missing; every row needs a label", 1, 0, 1},
        {"text,other\na,yes\n", "there is no column \"label\"", 1, 0, 0},
        {"text,other\na,yes\n", NULL, 0, 0, 0},
        {"text,label\na,\n", NULL, 0, 0, 0},
        {"text,label\na,yes\n", NULL, 0, 1, 0},
        {"text,label\n", NULL, 1, 1, 0},
        {"title,label\na,no\n", "there is no column \"text\"", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int policy = TRI_BAD_ROWS_FAIL; policy <= TRI_BAD_ROWS_SKIP; policy++) {
            write_table(cases[i].text);
            spec.preprocess = fitted, spec.need_labels = cases[i].needed, spec.bad_rows = (tri_bad_rows)policy;
            tri_dataset *data;
            tri_status status = tri__dataset_open(&spec, &data);
            int skips = policy == TRI_BAD_ROWS_SKIP && cases[i].bad;
            assert_int_equal(status, cases[i].error && !skips ? TRI_DATA : TRI_OK);
            if (status != TRI_OK) assert_error(cases[i].error);
            else assert_int_equal(data->labels != NULL, cases[i].labels || skips);
            if (i == 0) assert_true(data->labels[0] == 1 && data->labels[1] == 0);
            if (skips) assert_true(data->n == 1 && data->n_bad == 1 && data->labels[0] == 1);
            tri__dataset_close(data);
        }
    tri__preprocess_free(fitted);
}

/* The only store of the cache. */
static void find_store(char out[static 512]) {
    DIR *dir = opendir(cache);
    assert_non_null(dir);
    out[0] = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        assert_int_equal(out[0], 0);
        assert_non_null(strstr(entry->d_name, ".tokens"));
        assert_null(strstr(entry->d_name, "tmp"));
        snprintf(out, 512, "%s/%s", cache, entry->d_name);
    }
    closedir(dir);
    assert_true(out[0]);
}

TEST(finds_its_store_again) {
    tri_preprocess_spec fit = fit_spec(2, 2);
    tri_dataset_spec spec = data_spec(2, cache);
    tri_preprocess *preprocess, *other;
    write_rows(0);
    tri_dataset *made = open_fit(&spec, &fit, &preprocess), *found;
    assert_said("tokenised");
    found = open_fit(&spec, &fit, &other);
    assert_said("from the token store");
    assert_true(found->from_store && !made->from_store && found->memory < (int64_t)found->store->file_bytes);
    assert_equal(made, found);
    tri__dataset_close(found);
    tri__preprocess_free(other);
    tri__dataset_close(made);
    /* Whatever a store came from makes another one when it changes. The old one is found when it is back, unless it was
     * the table itself: stores of what was in it before are removed. */
    for (int change = 0; change < 7; change++) {
        fit = fit_spec(2, 2), spec = data_spec(2, cache);
        if (change == 0) spec.max_len = 12;
        if (change == 1) spec.bad_rows = fit.bad_rows = TRI_BAD_ROWS_SKIP;
        if (change == 2) fit.transform = TRI_TRANSFORM_QUANTILE_NORMAL;
        if (change == 3) fit.missing = TRI_MISSING_ZERO;
        if (change == 4) fit.columns.n = 1;
        if (change == 5) write_table("text,title,x,y,label\na,b,1,red,0\na,b,2,red,1\n");
        if (change == 6) spec.preprocess = preprocess;
        if (change == 6) write_rows(0);
        for (int again = 0; again < 2; again++) {
            tri_dataset *data;
            other = NULL;
            if (change == 6) assert_int_equal(tri__dataset_open(&spec, &data), TRI_OK); /* applied, not fitted */
            else data = open_fit(&spec, &fit, &other);
            if (change == 5 && !again) assert_said("cache: removed 6 files");
            if (data->from_store != again)
                fail_msg("change %d, open %d: from_store is %d", change, again, data->from_store);
            tri__dataset_close(data);
            tri__preprocess_free(other);
        }
        if (change == 5) continue;
        fit = fit_spec(2, 2), spec = data_spec(1, cache);
        found = open_fit(&spec, &fit, &other);
        assert_int_equal(found->from_store, change < 5);
        tri__dataset_close(found);
        tri__preprocess_free(other);
    }
    tri__preprocess_free(preprocess);
    tri__folder_remove(cache);
}

/* With windows a row keeps the ids that they hold, is stored under another name, and texts with more are counted. */
TEST(windows_keep_more_of_a_text) {
    enum { LEN = 6, MOST = 3, STRIDE = 3, ROOM = LEN + (MOST - 1) * STRIDE };
    tri_preprocess_spec fit = fit_spec(2, 2);
    tri_dataset_spec spec = data_spec(2, cache), whole = data_spec(2, NULL);
    tri_preprocess *preprocess[3];
    tri_dataset *data[2];
    int64_t cut = 0;
    write_rows(0);
    whole.max_len = 64;
    tri_dataset *all = open_fit(&whole, &fit, &preprocess[2]);
    spec.max_len = LEN;
    spec.windows = (tri_windows){.most = MOST, .max_len = LEN, .stride = STRIDE, .before = {1, 1}, .after = {1, 1}};
    for (int again = 0; again < 2; again++) {
        data[again] = open_fit(&spec, &fit, &preprocess[again]);
        assert_int_equal(data[again]->from_store, again);
        assert_said(" texts are longer than 3 windows: cut at 12 tokens (max_sen_len 6, stride 3)");
        assert_said(" windows, ");
    }
    assert_equal(data[0], data[1]);
    for (int64_t row = 0; row < all->n; row++) {
        int64_t n = all->text[0].start[row + 1] - all->text[0].start[row], kept = n > ROOM ? ROOM : n;
        int32_t want[64], got[ROOM];
        assert_int_equal(data[0]->text[0].start[row + 1] - data[0]->text[0].start[row], kept);
        assert_int_equal(tri__dataset_ids(all, 0, row, want), TRI_OK);
        assert_int_equal(tri__dataset_ids(data[0], 0, row, got), TRI_OK);
        assert_memory_equal(got, want, (size_t)(kept - 1) * sizeof *got);
        assert_int_equal(got[kept - 1], want[n - 1]);
        cut += n > ROOM;
    }
    assert_true(cut > 0 && data[0]->cut[0] == cut && data[1]->cut[0] == cut && data[0]->cut[1] == 0);
    for (int i = 0; i < 2; i++) tri__dataset_close(data[i]);
    for (int i = 0; i < 3; i++) tri__preprocess_free(preprocess[i]);
    tri__dataset_close(all);
    tri__folder_remove(cache);
}

/* Another vocabulary, another store. */
TEST(another_tokenizer_is_another_store) {
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nb\na\n##a\n##b\n";
    char place[128], file[160];
    tri_preprocess_spec fit = fit_spec(1, 0);
    tri_dataset_spec spec = data_spec(1, cache);
    tri_preprocess *preprocess;
    write_rows(0);
    tri__dataset_close(open_fit(&spec, &fit, &preprocess));
    tri__preprocess_free(preprocess);
    snprintf(place, sizeof place, "%s/other", folder);
    snprintf(file, sizeof file, "%s/vocab.txt", place);
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(tri__file_write(file, vocabulary, sizeof vocabulary - 1), TRI_OK);
    tri_tokenizer *other[2] = {NULL, NULL};
    assert_int_equal(tri__tokenizer_load(place, &other[0]), TRI_OK);
    spec.tokenizer = other;
    tri_dataset *data = open_fit(&spec, &fit, &preprocess);
    assert_int_equal(data->from_store, 0);
    tri__dataset_close(data);
    tri__preprocess_free(preprocess);
    tri__tokenizer_free(other[0]);
    tri__folder_remove(place);
    tri__folder_remove(cache);
}

TEST(damaged_stores_are_made_again) {
    tri_preprocess_spec fit = fit_spec(2, 2);
    tri_dataset_spec spec = data_spec(2, cache);
    tri_preprocess *preprocess, *other;
    char file[512];
    write_rows(0);
    tri_dataset *whole = open_fit(&spec, &fit, &preprocess);
    find_store(file);
    struct stat info;
    assert_int_equal(stat(file, &info), 0);
    for (int round = 0; round < 60; round++) {
        int fd = open(file, O_RDWR);
        off_t at = round < 20 ? round * 12 : (off_t)((uint64_t)info.st_size * (uint64_t)(round - 20) / 40);
        unsigned char byte = 0;
        assert_true(fd >= 0);
        if (round % 3 == 0) {
            assert_int_equal(ftruncate(fd, at), 0); /* cut short, in the header or after it */
        } else { /* one bit of it */
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte = (unsigned char)(byte ^ (1 << round % 8));
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        close(fd);
        tri_dataset *data = open_fit(&spec, &fit, &other);
        if (data->from_store) fail_msg("round %d: damage at %lld was not seen", round, (long long)at);
        assert_said("; making it again");
        if (round % 10 == 0) { /* read back from the disk, not from what was just made */
            tri__dataset_close(data);
            tri__preprocess_free(other);
            data = open_fit(&spec, &fit, &other);
            assert_int_equal(data->from_store, 1);
            tri_dataset_spec memory = data_spec(1, NULL);
            tri_preprocess *third;
            tri_dataset *fresh = open_fit(&memory, &fit, &third);
            assert_equal(fresh, data);
            tri__dataset_close(fresh);
            tri__preprocess_free(third);
        }
        tri__dataset_close(data);
        tri__preprocess_free(other);
    }
    tri__dataset_close(whole);
    tri__preprocess_free(preprocess);
    tri__folder_remove(cache);
}

TEST(several_may_make_it_at_once) {
    enum { BUILDERS = 4 };
    tri_preprocess_spec fit = fit_spec(2, 2);
    tri_dataset_spec spec = data_spec(1, cache);
    tri_preprocess *preprocess;
    tri_dataset *data;
    pid_t child[BUILDERS];
    char file[512];
    write_rows(0);
    for (int i = 0; i < BUILDERS; i++)
        if ((child[i] = fork()) == 0) {
            tri_status status = tri__dataset_fit(&spec, &fit, &preprocess, &data);
            _exit(status != TRI_OK || data->n != ROWS);
        }
    for (int i = 0; i < BUILDERS; i++) {
        int code;
        assert_true(waitpid(child[i], &code, 0) == child[i] && WIFEXITED(code) && WEXITSTATUS(code) == 0);
    }
    find_store(file); /* one, and nothing left over */
    data = open_fit(&spec, &fit, &preprocess);
    assert_int_equal(data->from_store, 1);
    tri__dataset_close(data);
    tri__preprocess_free(preprocess);
    tri__folder_remove(cache);
}

TEST(a_folder_that_cannot_be_written_is_said) {
    tri_preprocess_spec fit = fit_spec(1, 0);
    tri_dataset_spec spec = data_spec(1, path); /* a file */
    tri_preprocess *preprocess;
    tri_dataset *data;
    write_rows(0);
    assert_int_equal(tri__dataset_fit(&spec, &fit, &preprocess, &data), TRI_IO);
    assert_null(preprocess);
    assert_error("table.csv");
}

/* No room on the disk: an error that says so, and nothing left behind. */
TEST(a_full_disk_is_said) {
    write_rows(0);
    pid_t child = fork();
    if (child == 0) {
        tri_preprocess_spec fit = fit_spec(2, 2);
        tri_dataset_spec spec = data_spec(1, cache);
        tri_preprocess *preprocess;
        tri_dataset *data;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){20000, 20000});
        _exit(tri__dataset_fit(&spec, &fit, &preprocess, &data) == TRI_IO && strstr(tri_error(), ".tokens") &&
                      !preprocess
                  ? 0
                  : 1);
    }
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
    assert_int_equal(rmdir(cache), 0); /* it is empty */
}

/* Adds a row to the table as soon as a store is to be made again: between its hashing and its reading. */
static void change_table(void *context, tri_log_level level, const char *text) {
    (void)context, (void)level;
    if (!strstr(text, "making it again")) return;
    FILE *table = fopen(path, "a");
    fprintf(table, "a,b,1,red,0\n");
    fclose(table);
}

TEST(a_table_that_changes_meanwhile_is_said) {
    tri_preprocess_spec fit = fit_spec(2, 2);
    tri_dataset_spec spec = data_spec(1, cache);
    tri_preprocess *preprocess;
    tri_dataset *data;
    char file[512];
    write_rows(0);
    tri__dataset_close(open_fit(&spec, &fit, &preprocess));
    tri__preprocess_free(preprocess);
    find_store(file);
    assert_int_equal(truncate(file, 1000), 0);
    spec.log = &(tri_log){.say = change_table};
    assert_int_equal(tri__dataset_fit(&spec, &fit, &preprocess, &data), TRI_IO);
    assert_error("table.csv changed while it was read");
    spec.log = &ears;
    data = open_fit(&spec, &fit, &preprocess);
    assert_true(data->n == ROWS + 1 && !data->from_store);
    tri__dataset_close(data);
    tri__preprocess_free(preprocess);
    tri__folder_remove(cache);
}

/* A table of 96 MB, read with 4 MB of it in memory: peak memory is the rows' share, not the texts'. Sanitizers keep
 * what is freed. */
TEST(memory_does_not_grow_with_the_texts) {
    enum { LONG_ROWS = 12000, WORDS = 4000 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    FILE *out = fopen(path, "w");
    char *text = malloc(2 * WORDS + 1);
    assert_true(out && text);
    for (int i = 0; i < WORDS; i++) memcpy(text + 2 * i, i % 3 ? "a " : "b ", 2);
    text[2 * WORDS] = 0;
    fprintf(out, "text,title,x,y,label\n");
    for (int i = 0; i < LONG_ROWS; i++) fprintf(out, "%s,%d,%d,red,%d\n", text + i % 100, i, i % 7, i % 2);
    assert_int_equal(fclose(out), 0);
    free(text);
    pid_t child = fork();
    if (child == 0) {
        struct rusage before, after;
        tri_preprocess_spec fit = fit_spec(2, 2);
        tri_dataset_spec spec = data_spec(1, cache);
        tri_preprocess *preprocess;
        tri_dataset *data;
        spec.keep = 4 << 20;
        getrusage(RUSAGE_SELF, &before);
        tri_status status = tri__dataset_fit(&spec, &fit, &preprocess, &data);
        getrusage(RUSAGE_SELF, &after);
        long grown = (after.ru_maxrss - before.ru_maxrss) / 1024;
        fprintf(stderr, "    96 MB of text: %ld MB more memory at most\n", grown);
        _exit(status != TRI_OK ? 1 : data->n != LONG_ROWS ? 2 : grown > 40 ? 3 : 0);
    }
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
    tri__folder_remove(cache);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_folder, remove_folder); }
