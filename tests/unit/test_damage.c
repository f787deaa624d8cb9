/* test_damage.c - damaged checkpoints: every flipped bit and every truncation is found, the file and the tensor are
 * named, and nothing is loaded. */
#include "checkpoint/checkpoint.h"

#include "base/random.h"
#include "tests/lib/test.h"
#include "tests/lib/soak.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/scratch.h"

enum { TENSORS = 3, EACH = 9000, FILES = 7, STEP = 7 };
static const char *const names[TENSORS] = {"primary.dense.weight", "primary.dense.bias", "fusion.output.weight"};
static const char *const files[FILES] = {"manifest.json",          "config.json",
                                         "preprocessing.json",     "weights-00000.safetensors",
                                         "weights-00001.safetensors", "optimizer-00000.safetensors",
                                         "optimizer-00001.safetensors"};
static char made[TRI_PATH_MAX];
static int64_t size[FILES];

static const char *path_of(int file, char path[static TRI_PATH_MAX]) {
    assert_int_equal(tri__path_join(path, made, files[file]), TRI_OK);
    return path;
}

/* As two ranks save it: each has one half of every tensor. */
static void make_checkpoint(void) {
    static float data[TENSORS][EACH];
    char temporary[TRI_PATH_MAX], moment[TENSORS][64], path[TRI_PATH_MAX];
    tri_json *part[2], *config = tri__json_pack("{s:s, s:f}", "label_name", "y", "lr", 2e-5),
                       *state = tri__json_pack("{s:f}", "best_loss", 1.0 / 3.0);
    tri_checkpoint_out out = {
        .folder = folder, .step = STEP, .config = config, .preprocessing = config, .state = state};
    tri_piece weights[TENSORS], optimizer[TENSORS];
    assert_int_equal(tri__checkpoint_begin(&out, temporary), TRI_OK);
    for (int rank = 0; rank < 2; rank++) {
        for (int t = 0; t < TENSORS; t++) {
            for (int i = 0; i < EACH; i++) data[t][i] = (float)(i + t);
            snprintf(moment[t], sizeof moment[t], "exp_avg.%s", names[t]);
            tri_piece piece = {
                .name = names[t], .dtype = TRI_F32, .shape = tri__shape_1d(EACH), .data = data[t] + rank * EACH / 2};
            piece.slice = tri__slice_whole(&piece.shape);
            piece.slice.begin = rank * EACH / 2, piece.slice.end = (rank + 1) * EACH / 2;
            weights[t] = optimizer[t] = piece;
            optimizer[t].name = moment[t];
        }
        out.weights = weights, out.n_weights = TENSORS, out.optimizer = optimizer, out.n_optimizer = TENSORS;
        assert_int_equal(tri__checkpoint_write(&out, temporary, rank, &part[rank]), TRI_OK);
    }
    assert_int_equal(tri__checkpoint_join(part[0], part[1]), TRI_OK);
    assert_int_equal(tri__checkpoint_end(&out, temporary, part[0]), TRI_OK);
    for (int rank = 0; rank < 2; rank++) tri__json_decref(part[rank]);
    tri__json_decref(config);
    tri__json_decref(state);
    assert_int_equal(tri__path_join(made, folder, "checkpoint-7"), TRI_OK);
    for (int f = 0; f < FILES; f++) {
        struct stat info;
        assert_int_equal(stat(path_of(f, path), &info), 0);
        size[f] = info.st_size;
    }
}

static void expect_damage(int file, const char *what) {
    tri_checkpoint *checkpoint;
    tri_status status = tri__checkpoint_open(made, 0, &checkpoint);
    if (status != TRI_DATA || checkpoint) fail_msg("%s, %s: opened with status %d", files[file], what, status);
    if (!strstr(tri_error(), files[file])) fail_msg("%s, %s: not named in \"%s\"", files[file], what, tri_error());
}

static void expect_whole(void) {
    tri_checkpoint *checkpoint;
    assert_int_equal(tri__checkpoint_open(made, 0, &checkpoint), TRI_OK);
    tri__checkpoint_close(checkpoint);
}

static void flip(int fd, int64_t bit) {
    unsigned char byte;
    assert_int_equal(pread(fd, &byte, 1, bit / 8), 1);
    byte ^= (unsigned char)(1u << bit % 8);
    assert_int_equal(pwrite(fd, &byte, 1, bit / 8), 1);
}

/* Half of the flips anywhere, by bytes; half in a file drawn first, so that small ones are hit as well. */
TEST(every_flipped_bit_is_found) {
    int flips = soak_count("SOAK_FLIPS", 1500), tensors = 0, headers = 0;
    int64_t all = 0;
    make_checkpoint();
    expect_whole();
    for (int f = 0; f < FILES; f++) all += size[f];
    for (int i = 0; i < flips; i++) {
        tri_random r = tri__philox(12, 34, (uint32_t)i, 0, 0, 0);
        char path[TRI_PATH_MAX], what[64];
        int64_t draw = (int64_t)(((uint64_t)r.word[0] << 32 | r.word[1]) % (uint64_t)(8 * all)), bit = draw;
        int f = 0;
        while (bit >= 8 * size[f]) bit -= 8 * size[f++];
        if (i % 2) f = (int)(r.word[2] % FILES), bit = draw % (8 * size[f]);
        int fd = open(path_of(f, path), O_RDWR);
        assert_true(fd >= 0);
        flip(fd, bit);
        snprintf(what, sizeof what, "bit %lld", (long long)bit);
        expect_damage(f, what);
        tensors += strstr(tri_error(), "tensor '") != NULL;
        headers += strstr(tri_error(), "in its header") != NULL;
        flip(fd, bit);
        close(fd);
    }
    print_message("    %d bits flipped: all found; %d times a tensor was named, %d times a header\n", flips, tensors,
                  headers);
    assert_true(tensors > flips / 4);
    expect_whole();
}

/* The bytes behind a tensor's name are its own: the first bit of each is flipped. */
TEST(the_tensor_is_the_right_one) {
    char path[TRI_PATH_MAX], want[96];
    make_checkpoint();
    for (int t = 0; t < TENSORS; t++) {
        /* Sorted by name in the file: fusion, bias, weight; three halves of EACH fp32 to the file's end. */
        static const int place[TENSORS] = {2, 1, 0};
        int fd = open(path_of(4, path), O_RDWR);
        int64_t bit = 8 * (size[4] - (int64_t)sizeof(float) * EACH / 2 * (TENSORS - place[t]));
        flip(fd, bit);
        snprintf(want, sizeof want, "tensor '%s'", names[t]);
        expect_damage(4, want);
        if (!strstr(tri_error(), want)) fail_msg("\"%s\" does not name %s", tri_error(), want);
        flip(fd, bit);
        close(fd);
    }
}

static void cut_at(int file, const char *text, int64_t at) {
    char path[TRI_PATH_MAX], what[64];
    if (at < 0 || at >= size[file]) return;
    assert_int_equal(tri__file_write(path_of(file, path), text, (size_t)at), TRI_OK);
    snprintf(what, sizeof what, "cut at %lld", (long long)at);
    expect_damage(file, what);
}

TEST(every_cut_is_found) {
    make_checkpoint();
    int cuts = 0;
    for (int f = 0; f < FILES; f++) {
        char path[TRI_PATH_MAX], *text;
        size_t length;
        assert_int_equal(tri__file_read(path_of(f, path), 1 << 24, &text, &length), TRI_OK);
        for (int64_t at = 0; at < size[f]; at += 4096, cuts += 3)
            for (int64_t by = -1; by <= 1; by++) cut_at(f, text, at + by);
        cut_at(f, text, size[f] - 1);
        assert_int_equal(unlink(path), 0);
        if (f) expect_damage(f, "removed");
        assert_int_equal(tri__file_write(path, text, length), TRI_OK);
        free(text);
    }
    print_message("    %d cuts: all found\n", cuts);
    expect_whole();
}

/* A manifest that lies, with its checksum put right, is no better: two shards that have changed places, a file that is
 * not there. */
TEST(exchanged_shards_are_found) {
    char a[TRI_PATH_MAX], b[TRI_PATH_MAX], c[TRI_PATH_MAX];
    make_checkpoint();
    assert_int_equal(tri__path_join(c, folder, "aside"), TRI_OK);
    assert_int_equal(rename(path_of(3, a), c), 0);
    assert_int_equal(rename(path_of(4, b), a), 0);
    assert_int_equal(rename(c, b), 0);
    expect_damage(3, "exchanged");
    assert_int_equal(tri__checkpoint_prune(folder, 0, 0), TRI_OK);
}

/* Readers that share out the hashing find what one of them alone would not. */
TEST(parts_make_up_the_whole) {
    enum { OF = 3 };
    char path[TRI_PATH_MAX];
    tri_checkpoint *checkpoint;
    make_checkpoint();
    for (int f = 3; f < FILES; f++) {
        int fd = open(path_of(f, path), O_RDWR), found = 0;
        flip(fd, 8 * (size[f] - 5));
        for (int part = 0; part < OF; part++) {
            found += tri__checkpoint_open_part(made, part, OF, &checkpoint) == TRI_DATA;
            tri__checkpoint_close(checkpoint);
        }
        assert_int_equal(found, 1);
        flip(fd, 8 * (size[f] - 5));
        close(fd);
    }
    assert_int_equal(tri__checkpoint_prune(folder, 0, 0), TRI_OK);
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, teardown); }
