/* test_peaks.c - the peak that MFU compares with: kept for each machine if it is higher, replaced by a step that did
 * more, harmless where its file cannot be read or written. */
#include "engine/cost/ceiling.h"
#include "engine/cost/mfu.h"

#include "base/file.h"

#include "tests/lib/test.h"

static char folder[] = "/tmp/trident-peaks-??????", path[TRI_PATH_MAX];

static int setup(void **state) {
    (void)state;
    memset(strchr(folder, '?'), 'X', 6);
    if (!mkdtemp(folder)) return -1;
    return tri__path_join(path, folder, "below/peaks.json") == TRI_OK ? 0 : -1;
}
static int teardown(void **state) {
    (void)state;
    return tri__folder_remove_all(folder) == TRI_OK ? 0 : -1;
}

/* The reference kernel adds one product after the other: at most 2.5e9 FLOP/s on any core. More would be a product of
 * fewer numbers than its FLOPs are counted for. */
TEST(test_ceiling_is_of_the_whole_product) {
    double flops;
    const tri_ceiling_product of = {.dtype = TRI_F32, .n = 128, .threads = 1, .timed = 1};
    assert_int_equal(tri__ceiling(tri__device_find("reference"), &of, &flops), TRI_OK);
    assert_true(flops > 0 && flops < 1e10);
}

TEST(test_kept) {
    assert_true(tri__peak_kept(NULL, "a") == 0 && tri__peak_kept(path, "a") == 0);
    tri__peak_keep(NULL, "a", 1);
    tri__peak_keep(path, "a", 2e9); /* its folder is made */
    tri__peak_keep(path, "a", 1e9); /* lower */
    tri__peak_keep(path, "b", 5e9);
    assert_true(tri__peak_kept(path, "a") == 2e9 && tri__peak_kept(path, "b") == 5e9 && tri__peak_kept(path, "c") == 0);
    tri_json *root;
    assert_int_equal(tri__json_load(path, TRI_DATA, &root), TRI_OK);
    for (int i = 0; i < 100; i++) { /* hosts whose names change do not fill the disk */
        char key[32];
        snprintf(key, sizeof key, "host %d", i);
        tri__json_set_new(tri__json_get(root, "peaks"), key, tri__json_real(1e9));
    }
    assert_int_equal(tri__json_save(path, root), TRI_OK);
    tri__json_decref(root);
    tri__peak_keep(path, "one more", 1e9);
    assert_true(tri__peak_kept(path, "host 99") == 0 && tri__peak_kept(path, "one more") == 1e9);
}

TEST(test_damaged) {
    static const char *const texts[] = {"", "{", "[]", "{\"format\": \"trident-peaks\", \"peaks\": []}",
                                        "{\"format\": \"trident-peaks\", \"peaks\": {\"a\": \"1\"}}",
                                        "{\"format\": \"trident-peaks\", \"peaks\": {\"a\": -1}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(tri__file_write(path, texts[i], strlen(texts[i])), TRI_OK);
        assert_true(tri__peak_kept(path, "a") == 0);
        tri__peak_keep(path, "a", 3e9);
        assert_true(tri__peak_kept(path, "a") == 3e9);
    }
    char inside[TRI_PATH_MAX]; /* a file where its folder should be */
    assert_int_equal(tri__path_join(inside, path, "peaks.json"), TRI_OK);
    (void)tri__fail(TRI_DATA, "earlier");
    tri__peak_keep(inside, "a", 1);
    assert_true(tri__peak_kept(inside, "a") == 0);
    assert_string_equal(tri_error(), "earlier");
}

/* MFU is at most 100 %: two ranks of 1e9 each, and a step that did more. */
TEST(test_reached) {
    tri_peak peak = {.flops = 2e9, .team = 1e9, .from = "measured", .key = "reached"};
    tri__peak_reached(path, 1.5e9, 0.9e9, &peak);
    assert_true(peak.flops == 2e9 && peak.team == 1e9);
    tri__peak_reached(path, 3e9, 0.9e9, &peak); /* nominal FLOPs are not what the cores did: this run's peak alone */
    assert_true(peak.flops == 3e9 && peak.team == 1e9 && tri__peak_kept(path, "reached") == 0);
    tri__peak_reached(path, 3e9, 4e9, &peak);
    assert_true(peak.flops == 12e9 && peak.team == 4e9 && tri__peak_kept(path, "reached") == 4e9);
    tri_peak given = {.flops = 1e9, .from = "hardware x"}; /* is what the user says */
    tri__peak_reached(path, 3e9, 4e9, &given);
    assert_true(given.flops == 1e9);
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, teardown); }
