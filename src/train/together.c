/* together.c - two rounds in which each rank tells all others a few words. In the first one, how its checks ended; with
 * it rank 0 names a file that it has just made in the run folder. In the second one, whether the file is seen. */
#include "train/session.h"

#include <sys/random.h>

/* Seconds in which a shared file system shows a new file everywhere. */
static const double SEEN_SECONDS = 5, LOOK_SECONDS = 0.05;

typedef struct report {
    int32_t status, token; /* token: rank 0's; 0: none */
    char text[504];
} report;

static tri_status gather(tri_world *world, const report *mine, report *all) {
    return tri_all_gather(tri_group_world(world), mine, all, (int64_t)sizeof *mine, NULL, TRI_U8);
}

/* The first failure of a round becomes that of the world; `whose` 0: of no rank in particular, so that rank 0 reports
 * it. */
static tri_status fail_alike(tri_world *world, const report *all, int whose) {
    int first = 0, alike = 0, n = world->size;
    char more[64] = "";
    while (first < n && all[first].status == TRI_OK) first++;
    if (first == n) return TRI_OK;
    for (int r = 0; r < n; r++) alike += all[r].status == all[first].status && !strcmp(all[r].text, all[first].text);
    if (alike > 1 && alike < n) snprintf(more, sizeof more, " (the same on %d of %d ranks)", alike, n);
    if (!atomic_load(&world->segment.control->abort))
        tri__control_fail(world->segment.control, alike == n || !whose ? -1 : first, all[first].status, "%s%s",
                          all[first].text, more);
    return tri__world_check(world);
}

/* ".probe-<number>", as files are named that the next start removes (checkpoint/folders.h); ranks have lower ones. */
static tri_status name_token(char path[static TRI_PATH_MAX], const char *folder, int32_t token) {
    return tri__path_join(path, folder, TRI_TEXT(32, ".probe-%d", (int)token));
}

static tri_status make_token(const char *folder, int32_t *token) {
    char path[TRI_PATH_MAX];
    uint32_t random;
    int fd;
    if (getrandom(&random, sizeof random, 0) != sizeof random) random = (uint32_t)(tri__clock_wall() * 1e3);
    *token = (int32_t)(random >> 2 | 1u << 30);
    TRI_TRY(name_token(path, folder, *token));
    TRI_TRY(tri__file_own(path, TRI_OWN_FRESH, &fd));
    return tri__close(fd) ? tri__fail_errno("write", path, TRI_IO) : TRI_OK;
}

static tri_status see_token(const tri_world *world, const char *folder, int32_t token) {
    char path[TRI_PATH_MAX];
    int there = 0;
    TRI_TRY(name_token(path, folder, token));
    for (double end = tri__clock() + SEEN_SECONDS;; tri__clock_sleep(tri__clock() + LOOK_SECONDS)) {
        TRI_TRY(tri__file_there(path, &there));
        if (there) return TRI_OK;
        if (tri__clock() > end) break;
    }
    const char *first = tri__world_host(world, 0), *here = tri__world_host(world, world->rank);
    return tri__fail(TRI_IO, "the run folder %s is not shared: rank %d on %s does not see what rank 0 on %s writes "
                     "there. --output-dir must be on a file system that all machines mount at the same path", folder,
                     world->rank, here ? here : "its machine", first ? first : "its machine");
}

static void set(report *out, tri_status status) {
    out->status = (int32_t)status;
    snprintf(out->text, sizeof out->text, "%s", status == TRI_OK ? "" : tri_error());
}

tri_status tri__begin_together(tri_world *world, const char *folder, tri_status mine) {
    if (!world || !world->watcher || world->generation) return mine;
    report own = {0}, *all = calloc((size_t)world->size, sizeof *all);
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory for the words of %d ranks", world->size);
    int several = world->nodes.n > 1, makes = several && world->rank == 0 && mine == TRI_OK;
    char path[TRI_PATH_MAX];
    if (makes) mine = make_token(folder, &own.token);
    set(&own, mine);
    tri_status status = gather(world, &own, all);
    if (status == TRI_OK) status = fail_alike(world, all, 1);
    if (status == TRI_OK && several) {
        set(&own, see_token(world, folder, all[0].token));
        status = gather(world, &own, all);
        if (status == TRI_OK) status = fail_alike(world, all, 0);
    }
    if (makes && own.token && name_token(path, folder, own.token) == TRI_OK) (void)tri__file_remove(path);
    free(all);
    return status;
}
