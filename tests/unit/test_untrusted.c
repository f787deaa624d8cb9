/* test_untrusted.c - token stores with wrong content and valid hashes, stores truncated or changed while in use, and
 * stores locked by another process: an error message, or the store is rebuilt; never a wrong index, a SIGBUS or a
 * deadlock. */
#include "tests/lib/test.h"
#include "tests/lib/scratch.h"
#include "base/clock.h"
#include "data/dataset/loader.h"
#include "data/dataset/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Places in the header (docs/internals/token-store.md). */
enum { AT_BODY_HASH = 64, AT_SECTIONS = 88, AT_HEADER_HASH = 248, BODY = 256 };
enum { ROWS = 40, PIECES = 9, MAX_LEN = 16, CLASSES = 2 };

static char said[4096], cache[128], path[128];
static tri_tokenizer *tokenizer[2];

static void hear(void *context, tri_log_level level, const char *text) {
    (void)context, (void)level;
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s\n", text);
}
static const tri_log ears = {.say = hear};

static int setup_table(void **state) {
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\n";
    char file[128], table[ROWS * 32] = "text,x,label\n";
    if (setup(state)) return -1;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(path, sizeof path, "%s/table.csv", folder);
    snprintf(file, sizeof file, "%s/vocab.txt", folder);
    for (int i = 0; i < ROWS; i++)
        sprintf(table + strlen(table), "a b%s,%d,%d\n", i % 3 ? " a" : "", i % 7, i % CLASSES);
    if (tri__file_write(file, vocabulary, sizeof vocabulary - 1) || tri__file_write(path, table, strlen(table)))
        return -1;
    return tri__tokenizer_load(folder, &tokenizer[0]) != TRI_OK;
}

static int teardown_table(void **state) {
    tri__tokenizer_free(tokenizer[0]);
    tri__folder_remove(cache);
    return teardown(state);
}

static tri_status fit(const tri_stop *stop, tri_preprocess **preprocess, tri_dataset **data) {
    static char *names[] = {"text", "x"};
    tri_preprocess_spec spec = {
        .label_name = "label", .text = {{names, 1}}, .columns = {names + 1, 1}, .n_classes = CLASSES};
    tri_dataset_spec how = {.path = path,
                            .tokenizer = tokenizer,
                            .max_len = MAX_LEN,
                            .need_labels = 1,
                            .threads = 1,
                            .cache = cache,
                            .stop = stop,
                            .log = &ears};
    said[0] = 0;
    return tri__dataset_fit(&how, &spec, preprocess, data);
}

/* Makes the store, or opens it; 1 when it was there. */
static int opens(void) {
    tri_preprocess *preprocess;
    tri_dataset *data;
    if (fit(NULL, &preprocess, &data) != TRI_OK) fail_msg("%s", tri_error());
    int found = data->from_store;
    assert_int_equal(data->n, ROWS);
    for (int64_t row = 0; row < ROWS; row++) assert_int_equal(data->labels[row], row % CLASSES);
    tri__dataset_close(data);
    tri__preprocess_free(preprocess);
    return found;
}

static void store_path(char out[static 512]) {
    DIR *files = opendir(cache);
    out[0] = 0;
    for (struct dirent *entry; files && (entry = readdir(files));)
        if (strstr(entry->d_name, ".tokens")) snprintf(out, 512, "%s/%s", cache, entry->d_name);
    assert_non_null(files);
    closedir(files);
    assert_true(out[0]);
}

static uint64_t word(const char *store, size_t at) {
    uint64_t value;
    memcpy(&value, store + at, sizeof value);
    return value;
}

/* Overwrites bytes at `at` of a section, and makes all hashes right again. */
static void forge(tri_section section, size_t at, const void *bytes, size_t n) {
    char file[512], *store;
    size_t size;
    store_path(file);
    assert_int_equal(tri__file_read(file, 1 << 20, &store, &size), TRI_OK);
    memcpy(store + word(store, AT_SECTIONS + 16 * (size_t)section) + at, bytes, n);
    uint64_t hash = XXH3_64bits(store + BODY, size - BODY);
    memcpy(store + AT_BODY_HASH, &hash, sizeof hash);
    hash = XXH3_64bits(store, AT_HEADER_HASH);
    memcpy(store + AT_HEADER_HASH, &hash, sizeof hash);
    assert_int_equal(tri__file_write(file, store, size), TRI_OK);
    free(store);
}

TEST_IN(what_rows_hold_is_checked, setup_table, teardown_table) {
    static const struct {
        tri_section section;
        size_t at;
        int32_t value;
        const char *words;
    } lies[] = {
        {TRI_SECTION_LABELS, 4 * 7, INT32_MAX, "labels that are none of the classes"},
        {TRI_SECTION_LABELS, 0, CLASSES, "labels that are none of the classes"},
        {TRI_SECTION_LABELS, 4 * (ROWS - 1), -1, "labels that are none of the classes"},
        {TRI_SECTION_IDS0, 4 * 5, PIECES, "token ids that the vocabulary does not"},
        {TRI_SECTION_IDS0, 0, -1, "token ids that the vocabulary does not"},
        {TRI_SECTION_START0, 8, 0, "rows are out of order"},           /* a row of no tokens */
        {TRI_SECTION_START0, 8 * 3, MAX_LEN + 99, "rows are out of order"},
        {TRI_SECTION_START0, 8 * 3 + 4, -1, "rows are out of order"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        opens();
        assert_true(opens());
        forge(lies[i].section, lies[i].at, &lies[i].value, sizeof lies[i].value);
        assert_false(opens());
        if (!strstr(said, lies[i].words) || !strstr(said, "making it again")) fail_msg("lie %zu: \"%s\"", i, said);
        assert_true(opens());
    }
    forge(TRI_SECTION_LABELS, 0, &(int32_t){1}, 4); /* what nobody can know to be wrong is taken: the forging itself
                                                       works */
    tri_preprocess *preprocess;
    tri_dataset *data;
    assert_int_equal(fit(NULL, &preprocess, &data), TRI_OK);
    assert_true(data->from_store && data->labels[0] == 1);
    tri__dataset_close(data);
    tri__preprocess_free(preprocess);
}

/* The store's preprocessing is of as many classes as its labels, and not of as many as the model. */
TEST_IN(preprocessing_is_checked, setup_table, teardown_table) {
    char file[512], *store;
    size_t size;
    opens();
    store_path(file);
    assert_int_equal(tri__file_read(file, 1 << 20, &store, &size), TRI_OK);
    char *labels = memmem(store + BODY, size - BODY, "[\"0\",\"1\"]", 9); /* notes are the last section */
    assert_non_null(labels);
    size_t at = (size_t)(labels - store) - word(store, AT_SECTIONS + 16 * TRI_SECTION_NOTES);
    free(store);
    forge(TRI_SECTION_NOTES, at, "[\"\"     ]", 9);
    assert_false(opens());
    if (!strstr(said, "its preprocessing is not what was asked for")) fail_msg("%s", said);
}

/* Batches until there are no more; what ended them. `change` is done to the store after the first. */
static tri_status run(void (*change)(const char *file)) {
    tri_preprocess *preprocess;
    tri_dataset *data;
    tri_sampler sampler;
    tri_loader *loader;
    char file[512];
    assert_int_equal(fit(NULL, &preprocess, &data), TRI_OK);
    store_path(file);
    assert_int_equal(tri__sampler_open(&sampler, data, 4, 1, 1, 1), TRI_OK);
    tri_loader_spec spec = {.sampler = &sampler, .epochs = 3};
    tri__sampler_maxima(&sampler, 3, &spec.maxima);
    assert_int_equal(tri__loader_open(&spec, &loader), TRI_OK);
    const tri_batch *batch;
    tri_status status = tri__loader_next(loader, &batch, NULL);
    assert_int_equal(status, TRI_OK);
    change(file);
    while (status == TRI_OK && batch) status = tri__loader_next(loader, &batch, NULL);
    assert_int_equal(tri__loader_next(loader, &batch, NULL), status); /* it stays so */
    tri__loader_close(loader);
    tri__sampler_close(&sampler);
    tri__dataset_close(data);
    tri__preprocess_free(preprocess);
    return status;
}

static void cut_off(const char *file) { assert_int_equal(truncate(file, BODY), 0); }

static void change_ids(const char *file) {
    char head[BODY];
    int32_t ids[64];
    for (int i = 0; i < 64; i++) ids[i] = 1 << 30;
    int fd = open(file, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && pread(fd, head, sizeof head, 0) == BODY);
    assert_int_equal(pwrite(fd, ids, sizeof ids, (off_t)word(head, AT_SECTIONS + 16 * TRI_SECTION_IDS0)), sizeof ids);
    close(fd);
}

static void leave_alone(const char *file) { (void)file; }

TEST_IN(a_store_that_changes_in_use_is_said, setup_table, teardown_table) {
    assert_int_equal(run(leave_alone), TRI_OK);
    assert_int_equal(run(cut_off), TRI_IO);
    if (!strstr(tri_error(), ".tokens was cut short while it is in use")) fail_msg("%s", tri_error());
    assert_false(opens());
    assert_int_equal(run(change_ids), TRI_DATA);
    if (!strstr(tri_error(), "changed while it is in use")) fail_msg("%s", tri_error());
}

/* Another opening of the same file holds the lock alone, as another process would. */
TEST_IN(a_lock_is_waited_for_with_a_deadline, setup_table, teardown_table) {
    char file[512], want[64];
    tri_store store;
    tri_preprocess *preprocess;
    tri_dataset *data;
    opens();
    store_path(file);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    double begin = tri__clock();
    tri_store_wait wait = {.seconds = 0.3, .log = &ears};
    said[0] = 0;
    assert_int_equal(tri__store_open(file, &(tri_key){0}, &wait, &store), TRI_BUSY);
    assert_true(tri__clock() - begin >= 0.3);
    snprintf(want, sizeof want, "locked by process %ld for 0.3 s", (long)getpid());
    if (!strstr(tri_error(), want)) fail_msg("%s", tri_error());
    if (!strstr(said, "waiting for it, up to 0.3 s")) fail_msg("%s", said);
    tri_stop stop = {.signal = 15};
    wait = (tri_store_wait){.seconds = 600, .stop = &stop};
    assert_int_equal(tri__store_open(file, &(tri_key){0}, &wait, &store), TRI_STOPPED);
    if (!strstr(tri_error(), "stopped (SIGTERM) while ")) fail_msg("%s", tri_error());
    assert_int_equal(fit(&stop, &preprocess, &data), TRI_STOPPED); /* and it is not made again instead */
    assert_null(preprocess);
    close(fd);
    assert_true(opens());
}

TEST_IN(a_signal_ends_tokenising, setup_table, teardown_table) {
    tri_stop stop = {.signal = 2};
    tri_preprocess *preprocess;
    tri_dataset *data;
    assert_int_equal(fit(&stop, &preprocess, &data), TRI_STOPPED);
    if (!strstr(tri_error(), "stopped (SIGINT) while ")) fail_msg("%s", tri_error());
    assert_true(!preprocess && !data);
    assert_int_equal(rmdir(cache), 0); /* nothing is left in it */
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
