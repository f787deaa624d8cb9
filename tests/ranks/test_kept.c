/* test_kept.c - state in shared memory: what ranks of one mesh keep, any other mesh reads; which step is whole; damaged
 * areas are refused. */
#include "checkpoint/memory.h"
#include "comm/world/kept.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/kept_pieces.h"
#include "tests/lib/test.h"

enum { ROWS = 6, COLS = 5, N = ROWS * COLS, RANKS = 3, BIAS = 7 };

/* Rank r's range of the weight [ROWS, COLS], and of its momentum; the last rank has the bias as a whole. */
typedef struct rank_state {
    float w[N], m[N], bias[BIAS];
    tri_piece weights[2], optimizer[1];
    tri_memory_pieces pieces;
    size_t at[3];
} rank_state;

static void make_state(int r, rank_state *s) {
    const tri_shape shape = tri__shape_2d(ROWS, COLS), flat = tri__shape_1d(BIAS);
    int64_t begin = N * r / RANKS, end = N * (r + 1) / RANKS;
    s->weights[0] = (tri_piece){.name = "w", .dtype = TRI_F32, .shape = shape, .slice = tri__slice_whole(&shape),
                                .data = s->w};
    s->weights[0].slice.begin = begin, s->weights[0].slice.end = end;
    s->weights[1] = (tri_piece){.name = "b", .dtype = TRI_F32, .shape = flat, .slice = tri__slice_whole(&flat),
                                .data = s->bias};
    s->optimizer[0] = s->weights[0];
    s->optimizer[0].name = "exp_avg.w", s->optimizer[0].data = s->m;
    s->pieces = (tri_memory_pieces){.weights = s->weights, .optimizer = s->optimizer,
                                    .n_weights = r == RANKS - 1 ? 2 : 1, .n_optimizer = 1};
    kept_lay_out(&s->pieces, s->at);
}

/* Numbers of a step, by the element of the whole tensor. */
static void fill(int r, rank_state *s, int step) {
    int64_t begin = N * r / RANKS, end = N * (r + 1) / RANKS;
    for (int64_t e = begin; e < end; e++)
        s->w[e - begin] = (float)(1000 * step + e), s->m[e - begin] = (float)(-1000 * step - e);
    for (int i = 0; i < BIAS; i++) s->bias[i] = (float)(100 * step + i);
}

/* A file with all ranks' areas, formatted, with steps 4 and 5. */
typedef struct kept_file {
    int fd;
    char *base;
    size_t bytes;
    tri_memory_area area[RANKS];
} kept_file;

static void make_file(kept_file *f) {
    rank_state *s = calloc(RANKS, sizeof *s);
    size_t at[RANKS + 1] = {4096};
    assert_non_null(s);
    for (int r = 0; r < RANKS; r++) {
        make_state(r, &s[r]);
        assert_int_equal(tri__memory_size(r, &s[r].pieces, &f->area[r].bytes), TRI_OK);
        at[r + 1] = at[r] + (f->area[r].bytes + 4095) / 4096 * 4096;
    }
    f->bytes = at[RANKS];
    f->fd = memfd_create("kept", MFD_CLOEXEC);
    assert_true(f->fd >= 0 && ftruncate(f->fd, (off_t)f->bytes) == 0);
    f->base = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    assert_true(f->base != MAP_FAILED);
    for (int r = 0; r < RANKS; r++) {
        f->area[r].base = f->base + at[r], f->area[r].fd = f->fd, f->area[r].at = at[r];
        assert_int_equal(tri__memory_format(f->base + at[r], f->area[r].bytes, r, &s[r].pieces), TRI_OK);
        for (int step = 4; step <= 5; step++) {
            tri_json *state = tri__json_pack("{s:i}", "samples", 10 * step);
            fill(r, &s[r], step);
            kept_copy(f->base + at[r], step & 1, &s[r].pieces);
            if (r == 0) assert_int_equal(tri__memory_state(f->base + at[r], step & 1, state), TRI_OK);
            tri__json_decref(state);
        }
    }
    free(s);
}

static void free_file(kept_file *f) {
    munmap(f->base, f->bytes);
    close(f->fd);
}

static tri_status open_step(const kept_file *f, int step, tri_checkpoint **out) {
    return tri__memory_open(f->area, RANKS, step & 1, step, tri__json_object(), out);
}

/* Both copies, by readers that cut the tensors elsewhere than the ranks that kept them. */
TEST(another_mesh_reads_either_step) {
    kept_file f = {0};
    make_file(&f);
    for (int step = 4; step <= 5; step++) {
        tri_checkpoint *c;
        float w[N], m[N], b[BIAS];
        const tri_shape shape = tri__shape_2d(ROWS, COLS), flat = tri__shape_1d(BIAS);
        assert_int_equal(open_step(&f, step, &c), TRI_OK);
        assert_int_equal(tri__checkpoint_step(c), step);
        assert_int_equal(tri__json_integer_value(tri__json_get(tri__checkpoint_state(c), "samples")), 10 * step);
        assert_true(tri__checkpoint_is_state(c, "exp_avg.w") && !tri__checkpoint_is_state(c, "w"));
        for (int cut = 0; cut <= N; cut += 7) {
            tri_piece p = {.name = "w", .dtype = TRI_F32, .shape = shape, .slice = tri__slice_whole(&shape), .data = w};
            p.slice.end = cut;
            assert_int_equal(tri__checkpoint_read(c, &p), TRI_OK);
            p.slice.begin = cut, p.slice.end = N, p.data = w + cut;
            assert_int_equal(tri__checkpoint_read(c, &p), TRI_OK);
            p.name = "exp_avg.w", p.slice = tri__slice_whole(&shape), p.data = m;
            assert_int_equal(tri__checkpoint_read(c, &p), TRI_OK);
            for (int e = 0; e < N; e++) assert_true(w[e] == 1000 * step + e && m[e] == -1000 * step - e);
        }
        tri_piece p = {.name = "b", .dtype = TRI_F32, .shape = flat, .slice = tri__slice_whole(&flat), .data = b};
        assert_int_equal(tri__checkpoint_read(c, &p), TRI_OK);
        for (int i = 0; i < BIAS; i++) assert_true(b[i] == 100 * step + i);
        tri__checkpoint_close(c);
    }
    free_file(&f);
}

/* A state is replaced as a whole, and not that of the other copy. */
TEST(a_state_is_replaced) {
    kept_file f = {0};
    tri_checkpoint *c;
    make_file(&f);
    for (int i = 0; i < 3; i++) {
        tri_json *state = tri__json_pack("{s:i}", "samples", 70 + i);
        assert_int_equal(tri__memory_state((void *)f.area[0].base, 1, state), TRI_OK);
        tri__json_decref(state);
        assert_int_equal(open_step(&f, 5, &c), TRI_OK);
        assert_int_equal(tri__json_integer_value(tri__json_get(tri__checkpoint_state(c), "samples")), 70 + i);
        tri__checkpoint_close(c);
    }
    assert_int_equal(open_step(&f, 4, &c), TRI_OK);
    assert_int_equal(tri__json_integer_value(tri__json_get(tri__checkpoint_state(c), "samples")), 40);
    tri__checkpoint_close(c);
    free_file(&f);
}

/* Each byte of head and table in turn: refused, or the same numbers; never read out of bounds (AddressSanitizer). */
TEST(damaged_areas_are_refused) {
    kept_file f = {0};
    make_file(&f);
    int refused = 0, tried = 0;
    for (size_t at = 0; at < 1024; at++) {
        unsigned char *byte = (unsigned char *)f.area[1].base + at, was = *byte;
        tri_checkpoint *c;
        *byte ^= 0x84;
        tried++;
        if (open_step(&f, 5, &c) != TRI_OK) refused++;
        else {
            const tri_shape shape = tri__shape_2d(ROWS, COLS);
            float w[N];
            tri_piece p = {.name = "w", .dtype = TRI_F32, .shape = shape, .slice = tri__slice_whole(&shape), .data = w};
            (void)!tri__checkpoint_read(c, &p);
            tri__checkpoint_close(c);
        }
        *byte = was;
    }
    assert_true(refused > tried / 4);
    free_file(&f);
}

/* The newest step that all ranks have: a rank that is ahead, or died while it wrote, leaves the step before. */
TEST(a_step_counts_once_all_ranks_have_it) {
    tri_segment_spec spec = {.n = RANKS, .world = RANKS, .heap_bytes = 1 << 16, .progress_timeout = 30, .flat = 1};
    tri_segment segment;
    tri_world world[RANKS] = {0};
    size_t bytes;
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    for (int r = 0; r < RANKS; r++) world[r].segment = segment, world[r].local = r;
    assert_int_equal(tri__kept_step(&segment), -1);
    assert_null(tri__kept_area(&segment, 0, &bytes));
    for (int r = 0; r < RANKS; r++) tri__kept_place(&world[r], tri__segment_heap(&segment, r), 100);
    assert_true(tri__kept_area(&segment, 2, &bytes) == tri__segment_heap(&segment, 2) && bytes == 100);
    for (int step = 1; step < 6; step++)
        for (int r = RANKS - 1; r >= 0; r--) {
            tri__kept_begin(&world[r], step);
            assert_int_equal(tri__kept_step(&segment), step == 1 ? -1 : step - 1);
            tri__kept_end(&world[r], step);
            assert_int_equal(tri__kept_step(&segment), r ? (step == 1 ? -1 : step - 1) : step);
        }
    atomic_store(&segment.control->line[1].kept_at, segment.bytes - 50);
    assert_null(tri__kept_area(&segment, 1, &bytes));
    tri__segment_close(&segment);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
