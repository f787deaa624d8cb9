/* watch.c - `trident watch RUN`: a run as it goes on, in a browser or in this terminal. It only reads the folder. */
#include "cli/cli.h"

#include "report/pages/live_page.h"
#include "report/runs/run_data.h"
#include "report/pages/terminal.h"
#include "web/http_hosts.h"

#include <sys/ioctl.h>
#include <unistd.h>

typedef struct watch_options {
    char *host, *allow_host;
    int64_t port;
    int terminal, once;
} watch_options;

#define ROW(kind, field, ...) TRI_OWN_ROW(watch_options, "watch", kind, field, __VA_ARGS__)
const tri_option tri__watch_options[] = {
    ROW(TEXT, host, .value = "127.0.0.1", .help = "address to listen at; 0.0.0.0: all of this machine's"),
    ROW(INT, port, .value = "8081", .min = 0, .max = 65535, .help = "port to listen at; 0: a free one"),
    ROW(TEXT, allow_host, .help = "further names that the page may be asked for by, separated by commas; *: all"),
    ROW(BOOL, terminal, .value = "false", .help = "show the run in this terminal instead of a browser"),
    ROW(BOOL, once, .value = "false", .help = "print the run as it is now, and end"),
    TRI_OWN_END(watch_options)};

typedef struct watching {
    tri_cli *cli;
    const watch_options *own;
    const char *folder;
    tri_run_reader *reader;
    int terminal;           /* stdout is one */
} watching;

/* ---- in a terminal ---- */

static int is_utf8(const tri_cli *cli) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = cli->lookup(names[i]);
        if (value && *value) return strcasestr(value, "UTF-8") || strcasestr(value, "UTF8");
    }
    return 0;
}

/* The window as it is now. */
static tri_screen screen_of(const watching *w) {
    struct winsize window = {0};
    tri_screen screen = {.width = w->cli->width > 0 ? w->cli->width : 80, .color = w->cli->out_color,
                         .utf8 = is_utf8(w->cli)};
    if (w->terminal && ioctl(fileno(w->cli->out), TIOCGWINSZ, &window) == 0) {
        if (window.ws_col) screen.width = window.ws_col;
        screen.height = window.ws_row > 1 ? window.ws_row - 1 : 1; /* the cursor stands on the last line */
    }
    return screen;
}

static tri_status take_run(const watching *w, tri_json **run) {
    const tri_run_data_options options = {.legs = 1};
    return tri__run_reader_data(w->reader, &options, run);
}

/* The whole screen is drawn in one write; lines that it no longer has are erased. */
static void draw(const watching *w, const tri_json *run, const char *words) {
    const tri_screen screen = screen_of(w);
    TRI_OWNED(tri__buffer_free) tri_buffer lines = {0};
    FILE *out = w->cli->out;
    if (run) tri__terminal_draw(run, &screen, tri__clock_wall(), &lines);
    else tri__buffer_put(&lines, "waiting for a run: %.*s\n", screen.width > 24 ? screen.width - 20 : 4, words);
    fputs("\033[H", out);
    for (char *line = lines.text, *end; line && (end = strchr(line, '\n')); line = end + 1)
        fprintf(out, "%.*s\033[K\n", (int)(end - line), line);
    fputs("\033[J", out);
    fflush(out);
}

static tri_status print_once(const watching *w) {
    TRI_OWNED(tri__json_drop) tri_json *run = NULL;
    TRI_OWNED(tri__buffer_free) tri_buffer lines = {0};
    tri_screen screen = screen_of(w);
    screen.height = 0;
    TRI_TRY(take_run(w, &run));
    tri__terminal_draw(run, &screen, tri__clock_wall(), &lines);
    if (!lines.failed && lines.text) fputs(lines.text, w->cli->out);
    return lines.failed ? tri__fail(TRI_RESOURCE, "out of memory") : TRI_OK;
}

/* On the terminal's second screen, so that what stood there comes back; the last view stays. */
static tri_status show(const watching *w) {
    int seen = 0;
    tri__signals_view(w->cli);
    fputs("\033[?1049h\033[?25l", w->cli->out);
    do {
        TRI_OWNED(tri__json_drop) tri_json *run = NULL;
        (void)take_run(w, &run); /* what is missing is waited for */
        draw(w, run, tri_error());
        seen = run != NULL;
    } while (!tri__signals_pause(1));
    fputs("\033[?25h\033[?1049l", w->cli->out);
    fflush(w->cli->out);
    return seen ? print_once(w) : TRI_OK;
}

/* ---- in a browser ---- */

static tri_status serve(const watching *w) {
    const tri_live_options options = {.folder = w->folder, .host = w->own->host, .port = (int)w->own->port,
                                      .allow_host = w->own->allow_host, .least_seconds = 0.5};
    tri_live_page *live;
    tri_kind kind;
    TRI_TRY(tri__live_open(&options, &live));
    tri__signals_view(w->cli);
    fprintf(w->cli->out, "watching %s at %s/ (Ctrl-C ends)\n", w->folder, tri__live_address(live));
    fflush(w->cli->out);
    if (tri__path_kind(w->folder, &kind) == TRI_OK && kind == TRI_KIND_NONE)
        fprintf(w->cli->err, "%s does not exist yet: waiting for it\n", w->folder);
    if (!tri__host_is_loopback(w->own->host))
        fprintf(w->cli->err,
                "warning: everybody who reaches this machine's port of %s can read the run's settings and figures; "
                "`ssh -L` to 127.0.0.1 keeps them private\n", tri__live_address(live));
    while (!tri__signals_pause(3600)) continue;
    tri__live_close(live);
    return TRI_OK;
}

static tri_status watch(const watching *w) {
    if (!w->own->once && !w->own->terminal) return serve(w);
    return w->terminal && !w->own->once ? show(w) : print_once(w);
}

tri_status tri__command_watch(tri_cli *cli, tri_command_call *call) {
    const char *term = cli->lookup("TERM");
    if (!call->n_words)
        return tri__fail(TRI_USAGE, "which run? trident watch RUN, the --output-dir of `trident train`");
    watching w = {.cli = cli, .own = call->own, .folder = call->words[0],
                  .terminal = isatty(fileno(cli->out)) && term && strcmp(term, "dumb")};
    TRI_TRY(tri__run_reader_open(w.folder, &w.reader));
    tri_status status = watch(&w);
    tri__run_reader_close(w.reader);
    return status;
}
