/* help.c - help and version, from the table of commands and the option rows. Help fits on a screen, 25 lines of 80
 * columns: what matters most comes first, the rest is left to `--help all`. */
#include "cli/cli.h"

#include <unistd.h>

const char *tri__option_default(const tri_option *row, const tri_command *command) {
    if (!row->value || (row->kind == TRI_OPTION_BOOL && !strcmp(row->value, "false"))) return "";
    return command && command->folder && !strcmp(row->name, "output_dir") ? command->folder : row->value;
}

const char *tri__option_choices(const tri_option *row, const char *join, char out[static 256]) {
    out[0] = 0;
    for (const char *at = row->choices; at && *at; at += strcspn(at, "|"), at += *at == '|') {
        size_t length = strcspn(at, "|");
        if (!memchr(at, '=', length)) tri__text_append(out, 256, join, "%.*s", (int)length, at);
    }
    return out;
}

/* `text` from column `indent` on, in lines of less than `width` columns, broken at blanks; the cursor is at `at`. out
 * NULL: only counts. Returns the number of lines. */
static int put_wrapped(FILE *out, const char *text, int at, int indent, int width) {
    int is_late = at > indent, lines = 1 + is_late;
    if (out) fprintf(out, is_late ? "\n%*s" : "%*s", is_late ? indent : indent - at, "");
    for (at = indent; *text;) {
        int blanks = (int)strspn(text, " "), length = (int)strcspn(text + blanks, " ");
        if (at > indent && at + blanks + length >= width) {
            if (out) fprintf(out, "\n%*s", indent, "");
            lines++, at = indent, text += blanks;
            continue;
        }
        if (out) fprintf(out, "%.*s", blanks + length, text);
        at += blanks + length, text += blanks + length;
    }
    if (out) fputc('\n', out);
    return lines;
}

enum { SHORT_INDENT = 26, INDENT = 32, SHORT_LINES = 25, UNKNOWN_WIDTH = 80, NO_WIDTH = 1 << 20 };

/* A row's name, meaning, choices, default and alias. Returns the number of lines; out NULL: only counts. */
static int print_row(FILE *out, const tri_option *row, const tri_command *command, int indent, int width) {
    static const char *const values[] = {
        [TRI_OPTION_BOOL] = "",      [TRI_OPTION_INT] = " N",       [TRI_OPTION_REAL] = " X",
        [TRI_OPTION_TEXT] = " TEXT", [TRI_OPTION_CHOICE] = " WORD", [TRI_OPTION_TEXTS] = " A,B",
        [TRI_OPTION_REALS] = " X,Y", [TRI_OPTION_OBJECT] = "",
    };
    char flag[64], name[96], choices[256], text[1024];
    const char *value = tri__option_default(row, command);
    int at = snprintf(name, sizeof name, "  %s%s ", tri__option_flag(row->name, flag), values[row->kind]);
    snprintf(text, sizeof text, "%s", row->help);
    if (row->kind == TRI_OPTION_CHOICE)
        tri__text_append(text, sizeof text, " ", "(%s)", tri__option_choices(row, ", ", choices));
    if (*value) tri__text_append(text, sizeof text, " ", "[%s]", value);
    if (row->alias) tri__text_append(text, sizeof text, "; ", "also %s", tri__option_flag(row->alias, flag));
    if (out) fputs(name, out);
    return put_wrapped(out, text, at, indent, width);
}

/* Headings of option rows: the name that rows use, and the text. */
static const struct {
    const char *word, *heading;
} groups[] = {
    {"optimisation", "Optimisation (also keys of the configuration file)"},
    {"torchrun", "Options of torchrun"},
};
enum { GROUPS = sizeof groups / sizeof *groups };

/* Prints the rows that the command takes under a heading, which is omitted if there are none. group: only rows with
 * that heading; "": only rows without one. Returns the heading if it has not been printed yet. */
static const char *print_group(FILE *out, const char *heading, const tri_option *rows, const tri_command *command,
                               const char *group, int width) {
    for (const tri_option *row = rows; row && row->name; row++) {
        if (!tri__option_listed(row, command->name) || row->kind == TRI_OPTION_OBJECT) continue;
        if (strcmp(row->heading ? row->heading : "", group)) continue;
        if (heading) fprintf(out, "\n%s\n", heading);
        heading = NULL;
        print_row(out, row, command, INDENT, width);
    }
    return heading;
}

const tri_option *tri__command_option(const tri_command *command, const tri_option *row) {
    const tri_option *const sets[] = {command->own, tri__run_options, command->model ? tri__model_options : NULL};
    int seen = !row;
    for (int i = 0; i < 3; i++)
        for (const tri_option *at = sets[i]; at && at->name; at++) {
            if (seen && tri__option_listed(at, command->name) && at->kind != TRI_OPTION_OBJECT) return at;
            seen |= at == row;
        }
    return NULL;
}

/* The row of the option that stands at `list`, whose names are separated by commas; NULL: the command has none. */
static const tri_option *shown_row(const tri_command *command, const char *list) {
    size_t length = strcspn(list, ",");
    for (const tri_option *row = NULL; (row = tri__command_option(command, row));)
        if (strlen(row->name) == length && !strncmp(row->name, list, length)) return row;
    return NULL;
}

static const char *next_shown(const char *at) {
    at += strcspn(at, ",");
    return at + (*at == ',');
}

static int is_shown(const tri_command *command, const tri_option *row) {
    const char *at = command->shown ? command->shown : "";
    while (*at && shown_row(command, at) != row) at = next_shown(at);
    return *at != 0;
}

/* The options that matter most, then others in the order of their rows, as far as they fit. */
static void print_short(FILE *out, const tri_command *command, int lines, int width) {
    const tri_option *row;
    int left = 0;
    for (const char *at = command->shown ? command->shown : ""; *at; at = next_shown(at))
        if ((row = shown_row(command, at))) lines -= print_row(out, row, command, SHORT_INDENT, width);
    for (row = NULL; (row = tri__command_option(command, row));) {
        if (is_shown(command, row)) continue;
        if (left || print_row(NULL, row, command, SHORT_INDENT, width) > lines) left++;
        else lines -= print_row(out, row, command, SHORT_INDENT, width);
    }
    if (left) fprintf(out, "\n`trident %s --help all` lists %d more options.\n", command->name, left);
}

static void print_all(FILE *out, const tri_command *command, int width) {
    const char *heading = print_group(out, "Options  [default]", command->own, command, "", width);
    print_group(out, heading, tri__run_options, command, "", width);
    for (int i = 0; i < GROUPS; i++)
        print_group(out, groups[i].heading, tri__run_options, command, groups[i].word, width);
    if (command->model)
        print_group(out, "Model (usually keys of the configuration file)", tri__model_options, command, "", width);
    fputc('\n', out);
    put_wrapped(out, "Dashes and underscores are equal; --name value and --name=value too. A switch takes true or "
                     "false, or nothing.", 0, 0, width);
    if (command->model)
        put_wrapped(out, "The command line wins over the configuration file. Options of torchrun, Lightning, Hugging "
                         "Face, DeepSpeed and Megatron are translated where they mean something here, else refused "
                         "with the option to use: docs/guide/coming-from-pytorch.md.", 0, 0, width);
}

/* Columns to fill: those of the terminal. `all` is not wrapped in a file or a pipe, where it is searched. */
static int width_of(const tri_cli *cli, FILE *out, int all) {
    if (all && !isatty(fileno(out))) return NO_WIDTH;
    return cli->width > SHORT_INDENT + 20 ? cli->width : UNKNOWN_WIDTH;
}

void tri__help_command(const tri_cli *cli, const tri_command *command, int all) {
    FILE *out = cli->out;
    int width = width_of(cli, out, all), lines = 1;
    const char *usage = TRI_TEXT(256, "usage: trident %s%s [options]", command->name,
                                 command->words ? command->words : "");
    fprintf(out, "trident %s -", command->name);
    int at = 10 + (int)strlen(command->name);
    lines += put_wrapped(out, command->summary, at, at + 1, width);
    fputc('\n', out);
    lines += put_wrapped(out, usage, 0, 0, width);
    if (command->example) {
        fputs("  e.g.", out);
        lines += put_wrapped(out, command->example, 6, 7, width);
    }
    if (all) {
        print_all(out, command, width);
        return;
    }
    fputc('\n', out);
    print_short(out, command, SHORT_LINES - lines - 3, width); /* without a line before, and two after */
}

/* Commands whose `hidden` is from `first` to `last`. */
static void print_commands(FILE *out, int first, int last, int width) {
    for (const tri_command *command = tri__commands; command->name; command++) {
        if (command->hidden < first || command->hidden > last) continue;
        fprintf(out, "  %-10s", command->name);
        put_wrapped(out, command->summary, 12, 13, width);
    }
}

void tri__help_main(const tri_cli *cli, FILE *out, int all) {
    int width = width_of(cli, out, all);
    char others[512];
    int n = snprintf(others, sizeof others, "Further: ");
    fprintf(out,
            "trident - trains and serves classifiers of two texts and a table of numbers\n\n"
            "usage: trident COMMAND [options]\n\n%s", all ? "Commands\n" : "");
    print_commands(out, 0, all ? 2 : 0, width);
    for (const tri_command *command = tri__commands; command->name; command++)
        if (command->hidden == 1)
            n += snprintf(others + n, sizeof others - (size_t)n, "%s%s", n > 9 ? ", " : "", command->name);
    fputc('\n', out);
    if (!all) put_wrapped(out, others, 0, 0, width);
    put_wrapped(out, "`trident COMMAND --help` shows a command's options, `trident --help all` all commands and exit "
                     "codes.", 0, 0, width);
    if (!all) return;
    put_wrapped(out, "Results go to stdout, progress to stderr; --json gives results as one JSON object, --no-color "
                     "(or NO_COLOR) plain text. `trident man` prints the manual page, `trident completion "
                     "bash|zsh|fish` a completion script.", 0, 0, width);
    fputs("\nExit codes\n", out);
    for (const tri_exit_code *row = tri__exit_codes; row->meaning; row++) {
        fprintf(out, "  %-4d", row->code);
        put_wrapped(out, row->meaning, 6, 7, width);
    }
}

tri_status tri__command_help(tri_cli *cli, tri_command_call *call) {
    const char *const *args = call->args;
    int n = call->n, all = n > 0 && !strcmp(args[n - 1], "all");
    n -= all;
    while (n > 0 && args[0][0] == '-') n--, args++;
    if (n == 0) {
        tri__help_main(cli, cli->out, all);
        return TRI_OK;
    }
    const tri_command *command = tri__command_find(args[0]);
    if (!command) return tri__fail(TRI_USAGE, "no command \"%s\"; `trident --help all` lists all", args[0]);
    tri__help_command(cli, command, all);
    return TRI_OK;
}

tri_status tri__command_version(tri_cli *cli, tri_command_call *call) {
    (void)call;
    fprintf(cli->out, "trident %s\n", tri_version());
    return TRI_OK;
}
