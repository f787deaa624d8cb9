/* main.c - the `trident` program: the table of commands, from commands.def, and the one place where the environment is
 * read and errors are printed. The exit code is the command's tri_status. */
#include "cli/machine_files.h"
#include "cli/launch.h"
#include "cli/signals.h"
#include "cli/sinks.h"

#include "base/file.h"
#include "base/machine.h"
#include "base/text.h"
#include "report/sinks/sinks.h"
#include "report/text/text_table.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

const tri_command tri__commands[] = {
#define OWN(name) .own = tri__##name##_options
#define TRI_COMMAND(name_, summary_, ...) \
    {.name = #name_, .summary = summary_, .run = tri__command_##name_, __VA_ARGS__},
#include "cli/commands.def"
#undef TRI_COMMAND
#undef OWN
    {0},
};

const tri_exit_code tri__exit_codes[] = {
    {TRI_OK, "done"},
    {TRI_USAGE, "wrong option or configuration, or something this build cannot do"},
    {TRI_DATA, "an input file's content is wrong"},
    {TRI_NOINPUT, "an input file or folder is missing"},
    {TRI_INTERNAL, "a bug in Trident"},
    {TRI_RESOURCE, "out of memory or another resource"},
    {TRI_BUSY, "an output folder is in use by another run, a token store is locked, or an output exists already"},
    {TRI_IO, "reading or writing failed"},
    {TRI_STOPPED, "stopped early, what was trained is saved: run again"},
    {TRI_DISAGREE, "ranks disagree"},
    {TRI_NOTFINITE, "a number became infinite or undefined"},
    {0},
};

const tri_command *tri__command_find(const char *name) {
    for (const tri_command *command = tri__commands; command->name; command++)
        if (!strcmp(command->name, name)) return command;
    return NULL;
}

void tri__cli_report(tri_cli *cli, tri_status status) {
    if (status != TRI_OK && !cli->reported)
        fprintf(cli->err, cli->err_color ? "\033[31mtrident:\033[0m %s\n" : "trident: %s\n", tri_error());
    cli->reported = 1;
}

tri_status tri__print_json(FILE *out, const tri_json *value) {
    char *line = value ? tri__json_line(value) : NULL;
    if (!line) return tri__fail(TRI_RESOURCE, "out of memory while printing JSON");
    fprintf(out, "%s\n", line);
    free(line);
    return TRI_OK;
}

tri_status tri__print_json_new(FILE *out, tri_json *value) {
    tri_status status = tri__print_json(out, value);
    tri__json_decref(value);
    return status;
}

void tri__merge_new(tri_json *object, tri_json *members) {
    tri__json_update(object, members);
    tri__json_decref(members);
}

tri_status tri__print_table(const tri_cli *cli, tri_text_table *table) {
    tri_status status = tri__text_table_print(table, cli->out, cli->out_color);
    tri__text_table_free(table);
    return status;
}

tri_status tri__cli_settings(tri_settings *settings, const char *command, void *own, int n, const char *const *args,
                             const char **words, int max_words, int *n_words) {
    const tri_option *others[sizeof tri__commands / sizeof *tri__commands];
    const tri_command *row = tri__command_find(command);
    int n_others = 0;
    TRI_TRY(tri__settings_init(settings));
    TRI_TRY(tri__cli_hub(getenv, &settings->hub_cache));
    TRI_TRY(tri__cli_peaks(getenv, &settings->peaks));
    if (own) {
        TRI_TRY(tri__options_init(row->own, own));
        settings->own = (tri_option_set){row->own, own};
    }
    if (row->folder)
        TRI_TRY(tri__option_set_text(tri__option_find(tri__run_options, "output_dir"), settings, command, row->folder));
    for (const tri_command *other = tri__commands; other->name; other++)
        if (other->own) others[n_others++] = other->own;
    others[n_others] = NULL;
    settings->others = others;
    tri_status status = tri__settings_parse(settings, command, n, args, words, max_words, n_words);
    settings->others = NULL;
    TRI_TRY(status);
    for (int i = 0; i < settings->notes.n && tri__launch_speaks(getenv); i++)
        fprintf(stderr, "trident: %s\n", settings->notes.at[i]);
    return TRI_OK;
}

/* NO_COLOR wins over FORCE_COLOR; both count if not empty (no-color.org, force-color.org). */
static int wants_color(FILE *file, int refused) {
    const char *no = getenv("NO_COLOR"), *force = getenv("FORCE_COLOR"), *term = getenv("TERM");
    if (refused || (no && *no)) return 0;
    if (force && *force) return strcmp(force, "0") != 0;
    return isatty(fileno(file)) && term && strcmp(term, "dumb") != 0;
}

/* Also "--no_color". Arguments after "--" are not options. */
static int has_flag(int n, const char *const *args, const char *name) {
    for (int i = 0; i < n && strcmp(args[i], "--") != 0; i++) {
        const char *a = args[i], *b = name;
        for (; *a && (*a == *b || (*a == '_' && *b == '-')); a++) b++;
        if (!*a && !*b) return 1;
    }
    return 0;
}

static tri_status unknown_command(const char *name) {
    const char *names[32];
    int n = 0;
    for (const tri_command *command = tri__commands; command->name && n < 32; command++) names[n++] = command->name;
    const char *nearest = tri__text_nearest(name, names, n);
    if (nearest)
        return tri__fail(TRI_USAGE, "no command \"%s\"; did you mean \"%s\"? `trident --help all` lists all", name,
                         nearest);
    return tri__fail(TRI_USAGE, "no command \"%s\"; `trident --help all` lists all", name);
}

/* Calls a command with its options parsed. */
static tri_status call_parsed(tri_cli *cli, const tri_command *command, tri_command_call *call) {
    if (command->signals) tri__signals_take(cli, (tri_signal_words)command->signals);
    call->log = tri__sink_log(&call->sink);
    tri_status status = tri__cli_settings(&call->settings, command->name, call->own, call->n, call->args, call->words,
                                          command->most_words, &call->n_words);
    if (status != TRI_OK && command->ranks) status = tri__rank_refuse(tri__cli_parent(cli), status);
    if (status == TRI_OK) status = tri__cli_progress(cli, call->settings.quiet, &call->sink);
    if (status == TRI_OK) status = command->run(cli, call);
    tri__progress_close(&call->sink);
    tri__settings_free(&call->settings);
    return status;
}

static tri_status call_command(tri_cli *cli, const tri_command *command, int n, const char *const *args) {
    tri_command_call call = {.n = n, .args = args, .words = calloc((size_t)n + 1, sizeof *call.words)};
    const tri_option *end = command->own;
    while (end && end->name) end++;
    if (end) call.own = calloc(1, end->offset);
    tri_status status = !call.words || (end && !call.own) ? tri__fail(TRI_RESOURCE, "out of memory")
                        : command->unparsed               ? command->run(cli, &call)
                                                          : call_parsed(cli, command, &call);
    free(call.own);
    free(call.words);
    return status;
}

/* no_output: stdout was closed, and what is printed would be lost. */
static tri_status dispatch(tri_cli *cli, int no_output, int n, const char *const *args) {
    if (n == 0) {
        tri__help_main(cli, cli->err, 0);
        return tri__fail(TRI_USAGE, "a command is needed");
    }
    const char *name = args[0];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) name = "version";
    const tri_command *command = tri__command_find(name);
    if (!command) return unknown_command(name);
    n--, args++;
    int helps = has_flag(n, args, "--help") || has_flag(n, args, "-h");
    if (no_output && (helps || has_flag(n, args, "--json") || !command->prints_little)) TRI_TRY(tri__output_refuse());
    if (helps) {
        tri__help_command(cli, command, !strcmp(args[n - 1], "all"));
        return TRI_OK;
    }
    return call_command(cli, command, n, args);
}

/* libgomp calls exit(1) if it gets no memory or no thread; Trident itself never does. */
static void ended_by_library(int code, void *context) {
    static const char words[] =
        "trident: ended by a library that got no memory or no thread; its own message is above\n";
    (void)context;
    if (code != EXIT_FAILURE) return;
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
    _exit(TRI_RESOURCE);
}

/* Columns of the terminal; without one, $COLUMNS. 0: unknown. */
static int columns(void) {
    struct winsize window = {0};
    const char *said = getenv("COLUMNS");
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col) return window.ws_col;
    return said && atoi(said) > 0 ? atoi(said) : 0;
}

/* OpenMP's threads spin at the end of each parallel loop for milliseconds (libgomp) to 200 ms (libomp), which costs
 * several times the work itself where other processes want the same cores. About 20 us bridge the gap between two
 * operations; then a thread sleeps. Both libraries read this from the environment while they are loaded, so the program
 * is executed once more (1 ms), unless the user chose a policy or there is one thread. */
static void wait_briefly(int argc, char **argv) {
#ifdef __x86_64__
    static const char spins[] = "500"; /* an iteration pauses for 40 to 140 cycles */
#else
    static const char spins[] = "10000";
#endif
    const tri_command *command = argc > 1 ? tri__command_find(argv[1]) : NULL;
    const char *threads = getenv("OMP_NUM_THREADS");
    char program[4096];
    if (!command || !command->parallel || (threads && !strcmp(threads, "1"))) return;
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || getenv("KMP_BLOCKTIME")) return;
    if (tri__cores() == 1) return;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program);
    if (length <= 0 || length == sizeof program) return;
    program[length] = 0;
    if (setenv("GOMP_SPINCOUNT", spins, 1) || setenv("KMP_BLOCKTIME", "0", 1)) return;
    execv(program, argv); /* if that fails, threads spin */
}

/* Where both streams go to one file (2>&1), lines keep the order in which they were written. A terminal does it. */
static void keep_order(void) {
    struct stat out, err;
    if (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev &&
        out.st_ino == err.st_ino)
        (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}

int main(int argc, char **argv) {
    wait_briefly(argc, argv); /* first: what follows must see the streams as they were given */
    int no_output;
    if (tri__standard_open(&no_output) != TRI_OK) return TRI_IO; /* no stream to print an error to */
    signal(SIGPIPE, SIG_IGN); /* writing to a closed stdout is an error, not fatal */
    signal(SIGXFSZ, SIG_IGN); /* likewise beyond the file size limit */
    keep_order();
    const char **args = calloc((size_t)argc + 1, sizeof *args);
    if (!args || on_exit(ended_by_library, NULL)) {
        fputs("trident: no memory to begin\n", stderr);
        return TRI_RESOURCE;
    }
    for (int i = 1; i < argc; i++) args[i - 1] = argv[i];
    int n = argc > 0 ? argc - 1 : 0, plain = has_flag(n, args, "--no-color");
    const char *path = getenv("PATH"), *term = getenv("TERM");
    tri_cli cli = {
        .out = stdout,
        .err = stderr,
        .out_color = wants_color(stdout, plain),
        .err_color = wants_color(stderr, plain),
        .err_terminal = isatty(STDERR_FILENO) && strcmp(term ? term : "dumb", "dumb") != 0,
        .width = columns(),
        .path = path ? path : "",
        .lookup = getenv,
        .argv = argv,
        .environment = environ,
    };
    tri_status status = dispatch(&cli, no_output, n, args);
    if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE && status == TRI_OK)
        status = tri__fail(TRI_IO, "cannot write to stdout: %s", strerror(errno));
    tri__cli_report(&cli, status);
    free(args);
    if ((int)status == EXIT_FAILURE) { /* the code of a launcher (`supervise`), as it is */
        fflush(NULL);
        _exit(EXIT_FAILURE);
    }
    return (int)status;
}
