/* tune.c - matrix products chosen by timing: reads known ones, times the rest, exchanges them among ranks, writes. */
#include "engine/cost/tune.h"

enum { FILE_LIMIT = 4 << 20, ENTRY_WORDS = sizeof(tri_wisdom_entry) / sizeof(int64_t) };
_Static_assert(sizeof(tri_wisdom_entry) % sizeof(int64_t) == 0, "entries travel as whole words");

/* The choices of an earlier run, if it was on the same kind of device. */
static tri_status read_known(const char *path, const char *kind, tri_wisdom *wisdom, const tri_log *log) {
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size;
    int there;
    TRI_TRY(tri__file_there(path, &there));
    if (!there) return TRI_OK;
    TRI_TRY(tri__file_read(path, FILE_LIMIT, &text, &size));
    TRI_TRY(tri__wisdom_parse(text, size, path, wisdom));
    if (strcmp(wisdom->kind, kind) == 0) return TRI_OK;
    tri__say(log, TRI_LOG_WARN, "%s was made on %s, this is %s: products are timed again, and the last bits of results "
             "may differ", path, wisdom->kind, kind);
    wisdom->n = 0;
    return TRI_OK;
}

static tri_status write_known(const char *path, const tri_wisdom *wisdom) {
    size_t size;
    TRI_OWNED(tri__free_at) char *text = tri__wisdom_text(wisdom, &size);
    if (!text) return tri__fail(TRI_RESOURCE, "out of memory for %d products", wisdom->n);
    return tri__file_write(path, text, size);
}

/* Every rank gets all ranks' entries, in rank order; the first of a shape is kept. */
static tri_status merge(tri_world *world, tri_wisdom *wisdom, int64_t *counts, tri_wisdom_entry **all) {
    tri_group *group = tri_group_world(world);
    int64_t own = (int64_t)wisdom->n * ENTRY_WORDS, words = 0;
    TRI_TRY(tri_all_gather(group, &own, counts, 1, NULL, TRI_I64));
    for (int i = 0; i < tri_world_size(world); i++) words += counts[i];
    *all = malloc((size_t)words * sizeof(int64_t) + 1);
    if (!*all) return tri__fail(TRI_RESOURCE, "out of memory for all ranks' products");
    TRI_TRY(tri_all_gather(group, wisdom->entry, *all, 0, counts, TRI_I64));
    wisdom->n = 0;
    for (int64_t i = 0; i < words / ENTRY_WORDS; i++) tri__wisdom_add(wisdom, &(*all)[i]);
    return TRI_OK;
}

static tri_status share(tri_world *world, tri_wisdom *wisdom) {
    TRI_OWNED(tri__free_at) int64_t *counts = calloc((size_t)tri_world_size(world), sizeof *counts); /* [world] */
    TRI_OWNED(tri__free_at) tri_wisdom_entry *all = NULL;
    if (!counts) return tri__fail(TRI_RESOURCE, "out of memory for %d ranks", tri_world_size(world));
    return merge(world, wisdom, counts, &all);
}

/* All ranks begin with rank 0's file. */
static tri_status take_known(tri_world *world, int lead, const char *path, const char *kind, tri_wisdom *wisdom,
                             const tri_log *log) {
    if (lead) TRI_TRY(read_known(path, kind, wisdom, log));
    memset(wisdom->kind, 0, sizeof wisdom->kind);
    memcpy(wisdom->kind, kind, strnlen(kind, sizeof wisdom->kind - 1));
    if (!world) return TRI_OK;
    TRI_TRY(tri__world_agree(world, tri__hash64(0, wisdom->kind, sizeof wisdom->kind),
                             "the kinds of GPU or versions of cuBLASLt"));
    return share(world, wisdom);
}

static void say(const tri_wisdom *wisdom, int before, double seconds, const tri_log *log) {
    double guess = 0, best = 0;
    for (int i = 0; i < wisdom->n; i++)
        guess += (double)wisdom->entry[i].guess_us, best += (double)wisdom->entry[i].best_us;
    tri__say(log, TRI_LOG_INFO, "products: %d shapes known, %d timed now in %.1f s; one of each takes %.3f ms, by "
             "first guesses %.3f ms", before, wisdom->n - before, seconds, best / 1e3, guess / 1e3);
}

static tri_status tune(tri_engine *engine, const char *folder, tri_wisdom *wisdom, const tri_log *log) {
    tri_world *world = engine->place.world;
    double begin = tri__clock();
    int lead = engine->place.rank == 0;
    TRI_PATH(path, folder, TRI_WISDOM_FILE);
    TRI_TRY(take_known(world, lead, path, tri__exec_kind(engine->exec), wisdom, log));
    int before = wisdom->n;
    TRI_TRY(tri__exec_tune(engine->exec, wisdom));
    if (world) TRI_TRY(share(world, wisdom));
    tri__exec_follow(engine->exec, wisdom);
    if (!lead) return TRI_OK;
    say(wisdom, before, tri__clock() - begin, log);
    return wisdom->n > before ? write_known(path, wisdom) : TRI_OK;
}

tri_status tri__engine_tune(tri_engine *engine, const char *folder, const tri_log *log) {
    if (!tri__exec_kind(engine->exec)) return TRI_OK;
    TRI_OWNED(tri__free_at) tri_wisdom *wisdom = calloc(1, sizeof *wisdom);
    if (!wisdom) return tri__fail(TRI_RESOURCE, "out of memory for products");
    return tune(engine, folder, wisdom, log);
}
