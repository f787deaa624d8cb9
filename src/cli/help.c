/* help.c - help and version, from the table of commands and the option rows. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

const char *tri__option_default(const tri_option *row, const tri_command *command) {
    if (!row->value || (row->kind == TRI_OPTION_BOOL && !strcmp(row->value, "false"))) return "";
    return command && command->folder && !strcmp(row->name, "output_dir") ? command->folder : row->value;
}

const char *tri__option_choices(const tri_option *row, const char *join, char out[static 256]) {
    int used = 0;
    out[0] = 0;
    for (const char *at = row->choices; at && *at && used < 256; at += strcspn(at, "|"), at += *at == '|') {
        size_t length = strcspn(at, "|");
        if (!memchr(at, '=', length))
            used += snprintf(out + used, 256 - (size_t)used, "%s%.*s", used ? join : "", (int)length, at);
    }
    return out;
}

static void print_row(FILE *out, const tri_option *row, const tri_command *command) {
    static const char *const values[] = {
        [TRI_OPTION_BOOL] = "",      [TRI_OPTION_INT] = " N",       [TRI_OPTION_REAL] = " X",
        [TRI_OPTION_TEXT] = " TEXT", [TRI_OPTION_CHOICE] = " WORD", [TRI_OPTION_TEXTS] = " A,B",
        [TRI_OPTION_REALS] = " X,Y", [TRI_OPTION_OBJECT] = "",
    };
    char flag[64], name[96], choices[256];
    const char *value = tri__option_default(row, command);
    snprintf(name, sizeof name, "%s%s", tri__option_flag(row->name, flag), values[row->kind]);
    fprintf(out, "  %-30s%s", name, row->help);
    if (row->kind == TRI_OPTION_CHOICE) fprintf(out, " (%s)", tri__option_choices(row, ", ", choices));
    if (*value) fprintf(out, " [%s]", value);
    if (row->alias) fprintf(out, "; also %s", tri__option_flag(row->alias, flag));
    fputc('\n', out);
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
                               const char *group) {
    for (const tri_option *row = rows; row && row->name; row++) {
        if (!tri__option_listed(row, command->name) || row->kind == TRI_OPTION_OBJECT) continue;
        if (strcmp(row->heading ? row->heading : "", group)) continue;
        if (heading) fprintf(out, "\n%s\n", heading);
        heading = NULL;
        print_row(out, row, command);
    }
    return heading;
}

void tri__help_command(FILE *out, const tri_command *command) {
    fprintf(out, "trident %s - %s\n\nusage: trident %s%s [options]\n", command->name, command->summary, command->name,
            command->words ? command->words : "");
    if (command->example) fprintf(out, "  e.g. %s\n", command->example);
    const char *heading = print_group(out, "Options  [default]", command->own, command, "");
    print_group(out, heading, tri__run_options, command, "");
    for (int i = 0; i < GROUPS; i++) print_group(out, groups[i].heading, tri__run_options, command, groups[i].word);
    if (command->model)
        print_group(out, "Model (usually keys of the configuration file)", tri__model_options, command, "");
    fputs("\nDashes and underscores are equal; --name value and --name=value too. A switch takes true or false, or "
          "nothing.\n",
          out);
    if (command->model)
        fputs("The command line wins over the configuration file. Options of torchrun, Lightning, Hugging Face, "
              "DeepSpeed and Megatron\n"
              "are translated where they mean something here, else refused with the option to use: "
              "docs/guide/coming-from-pytorch.md.\n",
              out);
}

void tri__help_main(FILE *out) {
    fprintf(out, "trident - trains, checks and serves Trimodal BERT classifiers: two texts and a table of numbers\n\n"
                 "usage: trident COMMAND [options]\n\nCommands\n");
    for (const tri_command *command = tri__commands; command->name; command++)
        if (!command->hidden) fprintf(out, "  %-10s %s\n", command->name, command->summary);
    fprintf(out,
            "\n`trident COMMAND --help` lists a command's options. Results go to stdout, progress to stderr;\n"
            "--json gives results as one JSON object, --no-color (or NO_COLOR) plain text. `trident man` prints the\n"
            "manual page, `trident completion bash` a completion script.\n\nExit codes\n");
    for (const tri_exit_code *row = tri__exit_codes; row->meaning; row++)
        fprintf(out, "  %-4d %s\n", row->code, row->meaning);
}

tri_status tri__command_help(tri_cli *cli, int n, const char *const *args) {
    while (n > 0 && args[0][0] == '-') n--, args++;
    if (n == 0) {
        tri__help_main(cli->out);
        return TRI_OK;
    }
    const tri_command *command = tri__command_find(args[0]);
    if (!command) return tri__fail(TRI_USAGE, "no command \"%s\"; `trident --help` lists all", args[0]);
    tri__help_command(cli->out, command);
    return TRI_OK;
}

tri_status tri__command_version(tri_cli *cli, int n, const char *const *args) {
    (void)n, (void)args;
    fprintf(cli->out, "trident %s\n", tri_version());
    return TRI_OK;
}
