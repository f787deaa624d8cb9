/* run_signs.c - the files of a run folder as signs: compared by identity, size and time, since clocks of machines
 * differ. */
#include "job/run_signs.h"

#include "base/json.h"

#include <unistd.h>

enum { ERROR_BYTES = 1 << 20 }; /* size limit of error.json */

static const char *const results[2] = {"summary.json", "ensemble.json"};

static tri_stamp stamp(const tri_run_signs *signs, const char *name) {
    char path[TRI_PATH_MAX];
    return tri__path_join(path, signs->folder, name) == TRI_OK ? tri__path_stamp(path) : (tri_stamp){0};
}

static int differs(tri_stamp a, tri_stamp b) {
    return a.device != b.device || a.inode != b.inode || a.size != b.size || a.time.tv_sec != b.time.tv_sec ||
           a.time.tv_nsec != b.time.tv_nsec;
}

static int later(struct timespec a, struct timespec b) {
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

/* Of checkpoint-<step>, not of temporary ones. */
static struct timespec newest(const tri_run_signs *signs) {
    TRI_OWNED(tri__names_free) tri_names names = {0};
    struct timespec last = {0};
    if (tri__folder_list(signs->folder, &names) != TRI_OK) return last;
    for (int i = 0; i < names.n; i++) {
        long long step;
        int end = -1;
        if (sscanf(names.name[i], "checkpoint-%lld%n", &step, &end) != 1 || names.name[i][end]) continue;
        struct timespec one = stamp(signs, names.name[i]).time;
        if (later(one, last)) last = one;
    }
    return last;
}

static char *read_error(const tri_run_signs *signs) {
    char *text = NULL;
    size_t size;
    return tri__is_file(signs->error) && tri__file_read(signs->error, ERROR_BYTES, &text, &size) == TRI_OK ? text
                                                                                                           : NULL;
}

tri_status tri__run_open(tri_run_signs *signs, const char *folder) {
    TRI_TRY(tri__path_join(signs->folder, "", folder));
    return tri__path_join(signs->error, folder, "error.json");
}

void tri__run_close(tri_run_signs *signs) { free(signs->error_before); }

void tri__run_begin(tri_run_signs *signs) {
    if (!signs->folder[0]) return;
    free(signs->error_before);
    signs->error_before = read_error(signs);
    signs->at_start = stamp(signs, ".");
    signs->metrics = signs->grown = stamp(signs, "metrics.jsonl");
    for (int i = 0; i < 2; i++) signs->result[i] = stamp(signs, results[i]);
    signs->saved = newest(signs);
}

int tri__run_failed(const tri_run_signs *signs, int *there) {
    TRI_OWNED(tri__free_at) char *text = signs->folder[0] ? read_error(signs) : NULL;
    TRI_OWNED(tri__json_drop) tri_json *object = NULL;
    int code = 0;
    *there = text != NULL;
    if (text && (!signs->error_before || strcmp(text, signs->error_before)) &&
        tri__json_parse(text, strlen(text), signs->error, TRI_DATA, &object) == TRI_OK) {
        code = (int)tri__whole_in(object, "code");
        if (code <= 0 || code > 255) code = TRI_INTERNAL;
    }
    return code;
}

int tri__run_met(const tri_run_signs *signs) { return signs->folder[0] && differs(stamp(signs, "."), signs->at_start); }

int tri__run_trains(const tri_run_signs *signs) {
    return signs->folder[0] && differs(stamp(signs, "metrics.jsonl"), signs->metrics);
}

int tri__run_saved(const tri_run_signs *signs) { return signs->folder[0] && later(newest(signs), signs->saved); }

int tri__run_complete(const tri_run_signs *signs) {
    for (int i = 0; i < 2 && signs->folder[0]; i++)
        if (differs(stamp(signs, results[i]), signs->result[i])) return 1;
    return 0;
}

int tri__run_alive(tri_run_signs *signs) {
    tri_stamp now = stamp(signs, "metrics.jsonl");
    int grows = differs(now, signs->grown);
    signs->grown = now;
    return grows || tri__lock_held(signs->folder);
}
