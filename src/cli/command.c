/* command.c - the commands: their table, from commands.def, and what is the same for all, in the program (program.c)
 * and in a process that has other work too (tri_run_command). */
#include "cli/launch.h"

#include "report/sinks/sinks.h"
#include "report/text/text_table.h"

const tri_command tri__commands[] = {
#define OWN(name) .own = tri__##name##_options
#define TRI_COMMAND(name_, summary_, ...) \
    {.name = #name_, .summary = summary_, .run = tri__command_##name_, __VA_ARGS__},
#include "cli/commands.def"
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
    TRI_OWNED(tri__free_at) char *line = value ? tri__json_line(value) : NULL;
    if (!line) return tri__fail(TRI_RESOURCE, "out of memory while printing JSON");
    fprintf(out, "%s\n", line);
    return TRI_OK;
}

tri_status tri__print_json_new(FILE *out, tri_json *value) {
    TRI_OWNED(tri__json_drop) tri_json *own = value;
    return tri__print_json(out, own);
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

tri_status tri__cli_settings(const tri_cli *cli, tri_settings *settings, const char *command, void *own, int n,
                             const char *const *args, const char **words, int max_words, int *n_words) {
    const tri_option *others[sizeof tri__commands / sizeof *tri__commands];
    const tri_command *row = tri__command_find(command);
    int n_others = 0;
    TRI_TRY(tri__settings_init(settings));
    settings->tables = cli->caller ? cli->caller->tables : NULL;
    TRI_TRY(tri__cli_hub(&settings->hub_cache));
    TRI_TRY(tri__cli_peaks(&settings->peaks));
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
    for (int i = 0; i < settings->notes.n && tri__launch_speaks(cli->lookup); i++)
        fprintf(cli->err, "trident: %s\n", settings->notes.at[i]);
    return TRI_OK;
}

/* Also "--no_color". Arguments after "--" are not options. */
int tri__cli_has_flag(int n, const char *const *args, const char *name) {
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
    if (command->signals && !cli->caller) tri__signals_take(cli, (tri_signal_words)command->signals);
    call->log = tri__sink_log(&call->sink);
    tri_status status = tri__cli_settings(cli, &call->settings, command->name, call->own, call->n, call->args,
                                          call->words, command->most_words, &call->n_words);
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
    TRI_FREE(call.own, call.words);
    return status;
}

tri_status tri__cli_run(tri_cli *cli, int no_output, int n, const char *const *args) {
    if (n == 0) {
        tri__help_main(cli, cli->err, 0);
        return tri__fail(TRI_USAGE, "a command is needed");
    }
    const char *name = args[0];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) name = "version";
    const tri_command *command = tri__command_find(name);
    if (!command) return unknown_command(name);
    if (command->alone) TRI_TRY(tri__cli_alone(cli, name));
    n--, args++;
    int helps = tri__cli_has_flag(n, args, "--help") || tri__cli_has_flag(n, args, "-h");
    if (no_output && (helps || tri__cli_has_flag(n, args, "--json") || !command->prints_little))
        TRI_TRY(tri__output_refuse());
    if (helps) {
        tri__help_command(cli, command, !strcmp(args[n - 1], "all"));
        return TRI_OK;
    }
    return call_command(cli, command, n, args);
}

tri_status tri__cli_alone(const tri_cli *cli, const char *what) {
    if (!cli->caller) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s takes a process of its own, or several: run the program `trident` for it", what);
}

/* ---- in a process that is not the program's ---- */

/* A stream to a caller. */
typedef struct teller {
    const tri_caller *caller;
    tri_output_kind kind;
} teller;

static ssize_t tell(void *context, const char *text, size_t n) {
    const teller *t = context;
    if (t->caller->output) t->caller->output(t->caller->context, t->kind, text, n);
    return (ssize_t)n;
}

static FILE *open_teller(teller *t) {
    FILE *file = fopencookie(t, "w", (cookie_io_functions_t){.write = tell});
    if (file) setvbuf(file, NULL, _IOLBF, BUFSIZ);
    return file;
}

/* A launcher's ranks are processes that run the program: what it set means nothing here. */
static char *no_variable(const char *name) {
    (void)name;
    return NULL;
}

tri_status tri_run_command(int n_words, const char *const *words, const tri_caller *caller) {
    static const tri_caller nobody;
    if (!caller) caller = &nobody;
    tri_stop stop = {.asked = caller->stop};
    teller result = {caller, TRI_OUTPUT_RESULT}, message = {caller, TRI_OUTPUT_MESSAGE};
    FILE *out = open_teller(&result), *err = open_teller(&message);
    char *argv[] = {NULL};
    tri_cli cli = {.out = out, .err = err, .path = "", .lookup = no_variable, .argv = argv, .environment = argv,
                   .stop = &stop, .caller = caller};
    tri_status status = out && err ? tri__cli_run(&cli, 0, n_words, words) : tri__fail(TRI_RESOURCE, "out of memory");
    tri_words why; /* a caller that is told the last output may use the library */
    tri__words_keep(&why);
    if (out) fclose(out);
    if (err) fclose(err);
    tri__words_restore(&why);
    return tri__done(status);
}
