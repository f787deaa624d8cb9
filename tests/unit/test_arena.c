/* test_arena.c - arenas: growth, rewinding, memory that runs out, memory that is reused. */
#include "base/arena.h"

#include <sys/resource.h>

#include "tests/lib/test.h"

TEST(test_arena) {
    tri_arena arena;
    assert_int_equal(tri__arena_open(&arena, (size_t)1 << 30), TRI_OK);
    int *array = NULL, count = 0, capacity = 0;
    for (int i = 0; i < 10000; i++) *TRI_PUSH(&arena, array, count, capacity) = i;
    for (int i = 0; i < 10000; i++) assert_int_equal(array[i], i);
    assert_string_equal(tri__arena_print(&arena, "%d-%s", 4, "x"), "4-x");
    assert_string_equal(tri__arena_copy(&arena, "%s"), "%s");
    char *zeroed = tri__arena_alloc(&arena, 1000);
    assert_int_equal((uintptr_t)zeroed % 16, 0);
    for (int i = 0; i < 1000; i++) assert_int_equal(zeroed[i], 0);
    tri__arena_close(&arena);
    tri__arena_close(&arena);
}

/* Chunks are added and dropped: what was given out stays where it is, and what is given out again is zero. */
TEST(test_arena_grows) {
    enum { PIECES = 300, BYTES = 10007 };
    tri_arena arena;
    char *piece[PIECES];
    size_t mark[PIECES];
    assert_int_equal(tri__arena_open(&arena, 0), TRI_OK);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PIECES; i++) {
            mark[i] = arena.used;
            piece[i] = tri__arena_alloc(&arena, BYTES);
            for (int b = 0; b < BYTES; b++) assert_int_equal(piece[i][b], 0);
            memset(piece[i], i % 100 + 1, BYTES);
        }
        for (int i = 0; i < PIECES; i++) assert_int_equal(piece[i][BYTES / 2], i % 100 + 1);
        int back = PIECES - 1 - round * 140;
        tri__arena_rewind(&arena, mark[back]);
        assert_int_equal(arena.used, mark[back]);
        for (int i = 0; i < back; i++) assert_int_equal(piece[i][0], i % 100 + 1);
        tri__arena_rewind(&arena, 0);
    }
    assert_int_equal(tri__arena_room(&arena, 1 << 20), TRI_OK);
    char *large = tri__arena_alloc(&arena, 1 << 20);
    memset(large, 1, 1 << 20);
    tri__arena_close(&arena);
}

/* Memory of closed arenas is reused, zeroed: also what was rewound, and inside another reuse. */
static void reuse_arenas(void *data) {
    int *depth = data;
    for (int round = 0; round < 40; round++) {
        tri_arena arena;
        size_t bytes = (size_t)1000 << (round % 12);
        assert_int_equal(tri__arena_open(&arena, 0), TRI_OK);
        for (int i = 0; i < 3; i++) {
            size_t mark = arena.used;
            char *piece = tri__arena_alloc(&arena, bytes);
            for (size_t k = 0; k < bytes; k++)
                if (piece[k]) fail_msg("round %d: byte %zu of %zu is not zero", round, k, bytes);
            memset(piece, 0xff, bytes);
            if (i == 1) tri__arena_rewind(&arena, mark);
        }
        tri__arena_close(&arena);
    }
    if ((*depth)++ == 0) tri__arena_reuse(reuse_arenas, data);
}

TEST(test_arena_reuse) {
    int depth = 0;
    tri__arena_reuse(reuse_arenas, &depth);
    assert_int_equal(depth, 2);
}

static tri_status take_all_memory(tri_arena *scratch, void *data) {
    int *rounds = data;
    for (;; ++*rounds) tri__arena_alloc(scratch, 1 << 24);
    return TRI_OK;
}

static tri_status take_it_inside(tri_arena *scratch, void *data) {
    char *kept = tri__arena_copy(scratch, "kept");
    assert_int_equal(tri__arena_scratch(take_all_memory, data), TRI_RESOURCE);
    assert_string_equal(kept, "kept");
    return TRI_OK; /* the shortage was the inner work's */
}

/* Under a limit of addresses an arena that cannot grow is a status, and what it took is given back. */
TEST(test_arena_shortage) {
    if (getenv("TRI_SANITIZED")) skip(); /* their shadow memory is beyond any limit */
    struct rlimit before, tight;
    int rounds = 0;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    tight = before, tight.rlim_cur = (rlim_t)1 << 30;
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    tri_status first = tri__arena_scratch(take_it_inside, &rounds);
    int once = rounds;
    tri_status again = tri__arena_scratch(take_it_inside, &rounds);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(first, TRI_OK);
    assert_int_equal(again, TRI_OK);
    assert_non_null(strstr(tri_error(), "ulimit -v"));
    assert_true(once > 10 && rounds == 2 * once);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
