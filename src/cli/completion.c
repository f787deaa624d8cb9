/* completion.c - a bash completion script, from the table of commands and the option rows. */
#include "cli/cli.h"

#include <string.h>

static void flags(FILE *out, const tri_option *rows, const char *command) {
    char flag[64];
    for (const tri_option *row = rows; row && row->name; row++)
        if (tri__option_listed(row, command) && row->kind != TRI_OPTION_OBJECT)
            fprintf(out, " %s", tri__option_flag(row->name, flag));
}

/* `--shard) words="none zero1" ;;` for options with choices. */
static void choices(FILE *out, const tri_option *rows) {
    char flag[64], list[256];
    for (const tri_option *row = rows; row && row->name; row++)
        if (row->kind == TRI_OPTION_CHOICE)
            fprintf(out, "        %s) words=\"%s\" ;;\n", tri__option_flag(row->name, flag),
                    tri__option_choices(row, " ", list));
}

/* The subcommands of commands that have them: `bench) words="comm lab step pipeline" ;;`. */
static void verbs(FILE *out) {
    for (const tri_command *command = tri__commands; command->name; command++) {
        const char *at = command->words ? command->words + 1 : "";
        size_t length = strcspn(at, " ");
        if (!memchr(at, '|', length)) continue;
        fprintf(out, "        %s) words=\"", command->name);
        for (size_t i = 0; i < length; i++) fputc(at[i] == '|' ? ' ' : at[i], out);
        fputs("\" ;;\n", out);
    }
}

tri_status tri__command_completion(tri_cli *cli, int n, const char *const *args) {
    if (n > 1 || (n == 1 && strcmp(args[0], "bash")))
        return tri__fail(TRI_USAGE, "completion is there for bash only: `trident completion bash`");
    FILE *out = cli->out;
    fputs("# bash completion for trident; made by `trident completion bash`\n_trident() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} words=\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W \"",
          out);
    for (const tri_command *command = tri__commands; command->name; command++) fprintf(out, "%s ", command->name);
    fputs("\" -- \"$word\")); return\n    fi\n    [ \"$COMP_CWORD\" != 2 ] || case $last in\n", out);
    verbs(out);
    fputs("    esac\n    case $last in\n", out);
    choices(out, tri__run_options);
    choices(out, tri__model_options);
    for (const tri_command *command = tri__commands; command->name; command++) choices(out, command->own);
    fputs("    esac\n    if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\")); return; fi\n"
          "    case $word in -*) ;; *) COMPREPLY=($(compgen -f -- \"$word\")); return ;; esac\n"
          "    case ${COMP_WORDS[1]} in\n",
          out);
    for (const tri_command *command = tri__commands; command->name; command++) {
        fprintf(out, "        %s) words=\"--help", command->name);
        flags(out, command->own, command->name);
        flags(out, tri__run_options, command->name);
        if (command->model) flags(out, tri__model_options, command->name);
        fputs("\" ;;\n", out);
    }
    fputs("    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
          "complete -o filenames -F _trident trident\n",
          out);
    return TRI_OK;
}
