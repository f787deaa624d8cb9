/* man.c - the manual page, as troff (man macros), from the table of commands and the option rows. */
#include "cli/cli.h"

/* Text for troff: backslashes and dashes escaped, no line that starts like a request. */
static void put(FILE *out, const char *text) {
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '\\') fputs("\\e", out);
        else if (*text == '-') fputs("\\-", out);
        else fputc(*text, out);
    }
}

/* Without a command: a key of the configuration file. */
static void option(FILE *out, const tri_option *row, const tri_command *command) {
    const char *value = tri__option_default(row, command);
    fputs(".TP\n.B ", out);
    put(out, command ? tri__option_flag(row->name, (char[64]){0}) : row->name);
    fputc('\n', out);
    put(out, row->help);
    if (row->kind == TRI_OPTION_CHOICE) {
        fputs(" (", out);
        put(out, tri__option_choices(row, ", ", (char[256]){0}));
        fputs(")", out);
    }
    if (*value) {
        fputs(". Default: ", out);
        put(out, value);
    }
    fputs(".\n", out);
}

static void command_options(FILE *out, const tri_command *command) {
    for (const tri_option *row = command->own; row && row->name; row++) option(out, row, command);
    for (const tri_option *row = tri__run_options; row->name; row++)
        if (tri__option_listed(row, command->name)) option(out, row, command);
}

tri_status tri__command_man(tri_cli *cli, tri_command_call *call) {
    if (call->n > 0) return tri__fail(TRI_USAGE, "man takes no options, \"%s\" is one too many", call->args[0]);
    FILE *out = cli->out;
    fprintf(out, ".TH TRIDENT 1 \"\" \"trident %s\"\n", tri_version());
    fputs(".SH NAME\ntrident \\- train, evaluate and serve Trimodal BERT classifiers\n"
          ".SH SYNOPSIS\n.B trident\n.I command\n[options]\n.SH DESCRIPTION\n"
          "Trains classifiers of two texts and a table of numbers. Results go to stdout, progress to stderr.\n"
          "Dashes and underscores in option names are equal. The command line wins over the configuration file.\n"
          ".SH COMMANDS\n", out);
    for (const tri_command *command = tri__commands; command->name; command++) {
        fprintf(out, ".SS \"trident %s%s\"\n", command->name, command->words ? command->words : "");
        put(out, command->summary);
        fputs(".\n", out);
        if (command->example) {
            fputs(".PP\n.EX\n", out);
            put(out, command->example);
            fputs("\n.EE\n", out);
        }
        command_options(out, command);
    }
    fputs(".SH MODEL KEYS\nOf the configuration file, a JSON object; also options of train, plan and simulate.\n", out);
    for (const tri_option *row = tri__model_options; row->name; row++) option(out, row, NULL);
    fputs(".SH EXIT STATUS\n", out);
    for (const tri_exit_code *row = tri__exit_codes; row->meaning; row++)
        fprintf(out, ".TP\n%d\n%s.\n", row->code, row->meaning);
    fputs(".SH ENVIRONMENT\n.TP\nNO_COLOR, FORCE_COLOR, TERM\nWhether errors and progress are coloured.\n"
          ".TP\nCOLUMNS\nHow wide help and timelines are where there is no terminal.\n", out);
    return TRI_OK;
}
