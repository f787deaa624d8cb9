/* starts.c - the ranks of this machine, started once, or again after a crash. */
#include "job/failure.h"
#include "job/rank_process.h"
#include "job/ranks.h"

#include <sys/wait.h>

static tri_status read_logs(const tri_settings *s, const char *folder, char path[static TRI_PATH_MAX],
                            tri_rank_logs *logs) {
    int n = (int)s->nproc_per_node;
    logs->run = s->rdzv_id;
    TRI_TRY(tri__streams_parse("--redirects", s->redirects ? s->redirects : "0", n, logs->redirect));
    TRI_TRY(tri__streams_parse("--tee", s->tee ? s->tee : "0", n, logs->tee));
    TRI_TRY(tri__streams_filter("--local-ranks-filter", s->local_ranks_filter ? s->local_ranks_filter : "", n,
                                logs->hidden));
    if (s->log_dir) TRI_TRY(tri__path_join(path, "", s->log_dir));
    else TRI_TRY(tri__path_join(path, folder ? folder : ".", "logs"));
    logs->folder = path;
    return TRI_OK;
}

/* The disk that does not answer may be the run's own: a child writes there, and is waited for no longer than this. */
static void write_error_beside(const char *folder, const tri_verdict *verdict) {
    static const double SECONDS = 2;
    pid_t child = fork(), ended = 0;
    if (child < 0) return;
    if (child == 0) {
        tri__error_write(folder, verdict);
        _exit(0);
    }
    for (double begin = tri__clock(); ended == 0 && tri__clock() - begin < SECONDS;)
        if ((ended = waitpid(child, NULL, WNOHANG)) == 0) tri__clock_sleep(tri__clock() + 0.01);
    if (ended == 0) kill(child, SIGKILL);
}

static tri_status show(const tri_parent *parent, const char *folder, const tri_verdict *v) {
    if (!v->failed) {
        const char *name = v->stopped ? sigabbrev_np(v->stopped) : NULL;
        if (v->code == 0) return TRI_OK;
        if (v->code == TRI_STOPPED && v->committed >= 0)
            return tri__fail(TRI_STOPPED, "stopped; the state of step %lld is saved: run again to continue",
                             (long long)v->committed);
        if (v->code == TRI_STOPPED) return tri__fail(TRI_STOPPED, "stopped; run again");
        return tri__fail((tri_status)v->code, "stopped by signal %d (SIG%s)", v->stopped, name ? name : "?");
    }
    TRI_OWNED(tri__free_at) char *text = tri__verdict_text(v);
    parent->log.say(parent->log.context, TRI_LOG_FAILURE, text ? text : v->failure.text);
    if (v->hung && v->code == TRI_IO) write_error_beside(folder, v);
    else tri__error_write(folder, v);
    *parent->reported = 1;
    return tri__fail((tri_status)v->code, "%s", v->failure.text);
}

static tri_status start_once(const tri_parent *parent, const tri_settings *settings, const char *folder,
                             const tri_supervised *what, tri_verdict *verdict) {
    TRI_TRY(tri__stop_check(parent->stop, "no rank ran"));
    fflush(NULL);
    TRI_TRY(tri__supervise(what, verdict));
    if (verdict->logs[0] && !settings->quiet) tri__tell(parent, "logs of the ranks are in %s", verdict->logs);
    return show(parent, folder, verdict);
}

/* Ranks of a server that die are started again, however often: at once, or after a pause that doubles where the last
 * start did not live long. Gives up where they die as soon as they start. */
static int serves_again(const tri_parent *parent, double lived, int *in_row) {
    static const double STEADY = 60; /* seconds */
    enum { MOST = 5 };
    if (lived > STEADY) *in_row = 0;
    if (*in_row == MOST) {
        tri__tell(parent, "trident: %d starts in a row ended within %.0f s: the server is not started again",
                  MOST + 1, STEADY);
        return 0;
    }
    int pause = *in_row ? 1 << (*in_row - 1) : 0;
    ++*in_row;
    if (pause) tri__tell(parent, "trident: the server starts again in %d s", pause);
    else tri__tell(parent, "trident: the server starts again");
    return !pause || !parent->pause(pause) || !tri__stop_signalled(parent->stop);
}

tri_status tri__start_ranks(const tri_parent *parent, const tri_settings *settings, const char *folder,
                            tri_supervised what) {
    static const char *const resume[][2] = {{TRI_RESUME_VARIABLE, "auto"}};
    char logs[TRI_PATH_MAX];
    what.argv = parent->argv, what.environment = parent->environment, what.out = parent->out, what.err = parent->err;
    what.stop = parent->stop, what.log = &parent->log, what.reloads = parent->reloads;
    what.n = (int)settings->nproc_per_node, what.bind_cores = settings->bind_cores;
    what.gpus = strcmp(settings->device, "cuda") || parent->lookup("CUDA_VISIBLE_DEVICES") ? 0 : tri__gpus();
    what.progress_timeout = settings->progress_timeout, what.io_timeout = settings->io_timeout;
    what.elastic = what.logs.elastic = settings->elastic, what.max_restarts = settings->max_restarts;
    what.min_ranks = (int)settings->min_ranks, what.fit = parent->fit, what.fit_context = (void *)settings;
    TRI_OWNED(tri__free_at) char **resuming = NULL; /* the environment once a checkpoint is committed */
    int in_row = 0;
    tri_status status = read_logs(settings, folder, logs, &what.logs);
    for (int64_t restarts = 0, again = status == TRI_OK; again;) {
        TRI_OWNED(tri__verdict_free) tri_verdict verdict = {0};
        double begun = tri__clock();
        status = start_once(parent, settings, folder, &what, &verdict);
        again = verdict.failed && !verdict.stopped && tri__is_crash(verdict.code, verdict.hung);
        if (again && parent->reloads) again = serves_again(parent, tri__clock() - begun, &in_row);
        else if (again) again = restarts++ < settings->max_restarts;
        if (again && !parent->reloads)
            tri__tell(parent, "trident: start %lld of %lld", (long long)restarts + 1,
                      (long long)settings->max_restarts + 1);
        if (again && verdict.committed >= 0 && !resuming) {
            resuming = tri__environment_with(parent->environment, resume, 1);
            if (resuming) what.environment = resuming;
            else status = tri__fail(TRI_RESOURCE, "out of memory while starting again"), again = 0;
        }
        if (again) *parent->reported = 0;
    }
    return status;
}
