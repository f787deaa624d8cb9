/* trace.c - `trident trace RUN`: the ranks' traces merged into one file for Perfetto. */
#include "cli/cli.h"

#include "report/text/stream.h"
#include "report/runs/trace_merge.h"

#include <unistd.h>

/* The words with the ranks of a list, "2, 5", in them. */
static void say(const tri_cli *cli, const tri_json *facts, const char *key, const char *words) {
    const tri_json *list = tri__json_get(facts, key);
    TRI_OWNED(tri__buffer_free) tri_buffer ranks = {0};
    if (!tri__json_size(list)) return;
    tri__json_each(list, i, rank) {
        if (i == 8) tri__buffer_put(&ranks, " and %zu more", tri__json_size(list) - i);
        if (i < 8) tri__buffer_put(&ranks, "%s%lld", i ? ", " : "", tri__json_integer_value(rank));
    }
    fprintf(cli->err, words, ranks.text ? ranks.text : "?");
}

static void print(const tri_cli *cli, const char *path, const tri_json *facts) {
    fprintf(cli->out,
            "%s: %.0f events of %.0f of %.0f ranks, %.0f messages between ranks; open it in "
            "https://ui.perfetto.dev\n",
            path, tri__number_in(facts, "events"), tri__number_in(facts, "ranks"), tri__number_in(facts, "world"),
            tri__number_in(facts, "messages"));
    if (tri__number_in(facts, "uncertainty") > 0)
        fprintf(cli->out, "clocks of the machines agree to %.1f us\n", 1e6 * tri__number_in(facts, "uncertainty"));
    if (tri__number_in(facts, "shift") > tri__number_in(facts, "uncertainty"))
        fprintf(cli->err, "warning: a machine's clock was moved by %.1f us, so that no message arrives before it is "
                          "sent: more than the measurement's error\n", 1e6 * tri__number_in(facts, "shift"));
    say(cli, facts, "missing", "warning: no trace of rank %s\n");
    say(cli, facts, "old",
        "warning: left out, being of an earlier start on another number of ranks: the trace of rank %s\n");
    say(cli, facts, "cut", "warning: the trace is cut off, its whole events are merged: rank %s\n");
    say(cli, facts, "undated", "warning: the run did not end, so the clock was compared only at its start: rank %s\n");
}

static tri_status merge(const char *folder, const char *path, int replaces, tri_json **facts) {
    tri_delivery to;
    TRI_TRY(tri__delivery_begin(&to, path, replaces));
    int fd = dup(to.fd); /* the stream closes it */
    FILE *out = fd >= 0 ? tri__stream_open(fd, "w") : NULL;
    if (!out && fd >= 0) close(fd);
    tri_status status = out ? tri__traces_merge(folder, out, facts) : tri__fail(TRI_RESOURCE, "out of memory");
    if (out && fclose(out) && status == TRI_OK) status = tri__fail(TRI_IO, "cannot write %s", path);
    return tri__delivery_end(&to, status);
}

tri_status tri__command_trace(tri_cli *cli, tri_command_call *call) {
    const tri_settings *settings = &call->settings;
    const char *folder = call->n_words ? call->words[0] : NULL;
    TRI_OWNED(tri__json_drop) tri_json *facts = NULL;
    int there;
    if (!folder) return tri__fail(TRI_USAGE, "which run? e.g. `trident trace run -o trace.json`");
    TRI_TRY(tri__folder_there(folder, &there));
    if (!there) return tri__fail(TRI_NOINPUT, "%s: there is no such run folder", folder);
    TRI_PATH(own, folder, "trace.json");
    TRI_PATH(path, "", settings->output ? settings->output : own);
    const tri_output output = {.option = "-o", .path = path, .own = own, .words = &folder, .n_words = 1};
    TRI_TRY(tri__output_check(settings, &output));
    TRI_TRY(merge(folder, path, tri__output_replaces(settings, &output), &facts));
    tri__json_set_new(facts, "path", tri__json_string(path));
    if (settings->json) return tri__print_json(cli->out, facts);
    print(cli, path, facts);
    return TRI_OK;
}
