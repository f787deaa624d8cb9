/* completion.c - completion scripts for bash, zsh and fish, from the table of commands and the option rows. */
#include "cli/cli.h"

/* `--shard) words="none zero1" ;;` for options with choices; open, close: what a shell puts around a list. */
static void choices(FILE *out, const tri_option *rows, const char *open, const char *close) {
    for (const tri_option *row = rows; row && row->name; row++)
        if (row->kind == TRI_OPTION_CHOICE)
            fprintf(out, "        %s) %s%s%s ;;\n", tri__option_flag(row->name, (char[64]){0}), open,
                    tri__option_choices(row, " ", (char[256]){0}), close);
}

/* Choices of all commands' options. */
static void all_choices(FILE *out, const char *open, const char *close) {
    choices(out, tri__run_options, open, close);
    choices(out, tri__model_options, open, close);
    for (const tri_command *command = tri__commands; command->name; command++) choices(out, command->own, open, close);
}

/* The subcommands of commands that have them, with what a shell puts before the command, between it and them, and
 * after them: `bench) words="comm lab step pipeline" ;;`. */
static void verbs(FILE *out, const char *before, const char *between, const char *after) {
    for (const tri_command *command = tri__commands; command->name; command++) {
        const char *at = command->words ? command->words + 1 : "";
        size_t length = strcspn(at, " ");
        if (!memchr(at, '|', length)) continue;
        fprintf(out, "%s%s%s", before, command->name, between);
        for (size_t i = 0; i < length; i++) fputc(at[i] == '|' ? ' ' : at[i], out);
        fputs(after, out);
    }
}

static void bash(FILE *out) {
    fputs("# bash completion for trident; made by `trident completion bash`\n_trident() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} words=\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W \"", out);
    for (const tri_command *command = tri__commands; command->name; command++) fprintf(out, "%s ", command->name);
    fputs("\" -- \"$word\")); return\n    fi\n    [ \"$COMP_CWORD\" != 2 ] || case $last in\n", out);
    verbs(out, "        ", ") words=\"", "\" ;;\n");
    fputs("    esac\n    case $last in\n", out);
    all_choices(out, "words=\"", "\"");
    fputs("    esac\n    if [ -n \"$words\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\")); return; fi\n"
          "    case $word in -*) ;; *) COMPREPLY=($(compgen -f -- \"$word\")); return ;; esac\n"
          "    case ${COMP_WORDS[1]} in\n", out);
    for (const tri_command *command = tri__commands; command->name; command++) {
        fprintf(out, "        %s) words=\"--help", command->name);
        for (const tri_option *row = NULL; (row = tri__command_option(command, row));)
            fprintf(out, " %s", tri__option_flag(row->name, (char[TRI_OPTION_FLAG]){0}));
        fputs("\" ;;\n", out);
    }
    fputs("    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
          "complete -o filenames -F _trident trident\n", out);
}

/* In single quotes, for zsh and fish, with the closing one. */
static void put_quoted(FILE *out, const char *text, int fish) {
    for (; *text; text++) {
        if (*text == '\'') fputs(fish ? "\\'" : "'\\''", out);
        else if (*text == '\\' && fish) fputs("\\\\", out);
        else fputc(*text, out);
    }
    fputs(fish ? "'\n" : "'", out);
}

static void zsh(FILE *out) {
    fputs("#compdef trident\n# zsh completion for trident; made by `trident completion zsh`\n_trident() {\n"
          "    local command=$words[2] last=$words[CURRENT-1]\n    local -a offered\n    if (( CURRENT == 2 )); then\n"
          "        offered=(", out);
    for (const tri_command *command = tri__commands; command->name; command++) {
        fprintf(out, " '%s:", command->name);
        put_quoted(out, command->summary, 0);
    }
    fputs(" )\n        _describe command offered\n        return\n    fi\n"
          "    (( CURRENT != 3 )) || case $command in\n", out);
    verbs(out, "        ", ") offered=(", ") ;;\n");
    fputs("    esac\n    case $last in\n", out);
    all_choices(out, "offered=(", ")");
    fputs("    esac\n    if (( $#offered )); then compadd -a offered; return; fi\n"
          "    if [[ $PREFIX != -* ]]; then _files; return; fi\n    case $command in\n", out);
    for (const tri_command *command = tri__commands; command->name; command++) {
        fprintf(out, "        %s) offered=( '--help:show the options'", command->name);
        for (const tri_option *row = NULL; (row = tri__command_option(command, row));) {
            fprintf(out, " '%s:", tri__option_flag(row->name, (char[TRI_OPTION_FLAG]){0})); /* for _describe */
            put_quoted(out, row->help, 0);
        }
        fputs(" ) ;;\n", out);
    }
    fputs("    esac\n    _describe option offered\n}\n"
          "if [ \"$funcstack[1]\" = _trident ]; then _trident \"$@\"; else compdef _trident trident; fi\n", out);
}

/* A line for each row: the commands that take it, its values, its meaning. owner: the only one; NULL: any. */
static void fish_rows(FILE *out, const tri_option *rows, const tri_command *owner, int model) {
    for (const tri_option *row = rows; row && row->name; row++) {
        if (row->kind == TRI_OPTION_OBJECT) continue;
        fputs("complete -c trident -n '__fish_seen_subcommand_from", out);
        for (const tri_command *command = owner ? owner : tri__commands; command->name; command++) {
            if (tri__option_listed(row, command->name) && (!model || command->model))
                fprintf(out, " %s", command->name);
            if (owner) break;
        }
        fprintf(out, "' -l %s", tri__option_flag(row->name, (char[64]){0}) + 2);
        if (row->kind == TRI_OPTION_CHOICE) fprintf(out, " -x -a '%s'", tri__option_choices(row, " ", (char[256]){0}));
        else if (row->kind == TRI_OPTION_INT || row->kind == TRI_OPTION_REAL) fputs(" -x", out);
        else if (row->kind != TRI_OPTION_BOOL) fputs(" -r", out);
        fputs(" -d '", out);
        put_quoted(out, row->help, 1);
    }
}

static void fish(FILE *out) {
    fputs("# fish completion for trident; made by `trident completion fish`\n", out);
    for (const tri_command *command = tri__commands; command->name; command++) {
        fprintf(out, "complete -c trident -n __fish_use_subcommand -x -a %s -d '", command->name);
        put_quoted(out, command->summary, 1);
    }
    verbs(out, "complete -c trident -n '__fish_seen_subcommand_from ", "' -a '", "'\n");
    fputs("complete -c trident -l help -d 'show the options'\n", out);
    fish_rows(out, tri__run_options, NULL, 0);
    fish_rows(out, tri__model_options, NULL, 1);
    for (const tri_command *command = tri__commands; command->name; command++) fish_rows(out, command->own, command, 0);
}

tri_status tri__command_completion(tri_cli *cli, tri_command_call *call) {
    static const struct {
        const char *shell;
        void (*write)(FILE *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; call->n <= 1 && i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(call->n ? call->args[0] : "bash", shells[i].shell)) {
            shells[i].write(cli->out);
            return TRI_OK;
        }
    return tri__fail(TRI_USAGE, "completion takes one of bash, zsh and fish: `trident completion zsh`");
}
