/* plan.c - `trident plan`: what a step does and needs, without running it: a table of facts, or the program itself. */
#include "cli/cli.h"

#include "report/text/text_table.h"
#include "study/study.h"

/* Printed names of memory classes, by their keys in "bytes". */
static const struct {
    const char *key, *name;
} classes[] = {
    {"param", "parameters"}, {"grad", "gradients"}, {"state", "optimizer state"},
    {"act", "activations"},  {"gather", "gathered weights"}, {"comm", "communication"},
    {"staging", "staging copies"}, {"work", "workspace"}, {"result", "results"}, {"kept", "replicated state"},
    {"total", "peak"},
};
enum { CLASSES = sizeof classes / sizeof *classes };

/* One rank's training program next to its forward-only program. */
static tri_status print_rank(const tri_cli *cli, const tri_json *train, const tri_json *infer) {
    tri_text_table table = {0};
    char a[32], b[32], c[32];
    tri__text_table_add(&table, "rank %lld\ttraining step, bytes\t\tevaluation, bytes",
                        (long long)tri__whole_in(train, "rank"));
    for (size_t i = 0; i < CLASSES; i++) {
        if (!tri__json_get(tri__json_get(train, "bytes"), classes[i].key)) continue;
        tri_json_int step = tri__whole_in(tri__json_get(train, "bytes"), classes[i].key);
        tri_json_int forward = tri__whole_in(tri__json_get(infer, "bytes"), classes[i].key);
        tri__text_table_add(&table, "%s\t%s\t%s\t%s", classes[i].name, tri__text_count(step, a),
                       tri__text_bytes((double)step, b), tri__text_count(forward, c));
    }
    tri__text_table_add(&table, "instructions\t%lld\t\t%lld", (long long)tri__whole_in(train, "instructions"),
                        (long long)tri__whole_in(infer, "instructions"));
    tri__text_table_add(&table, "GFLOP, at most\t%.4g\t\t%.4g", tri__number_in(train, "flops") / 1e9,
                        tri__number_in(infer, "flops") / 1e9);
    return tri__print_table(cli, &table);
}

/* Classes that no rank uses are left out. */
static int is_used(const tri_json *ranks, const char *key) {
    tri__json_items(ranks, rank) if (tri__whole_in(tri__json_get(rank, "bytes"), key) > 0) return 1;
    return 0;
}

static double sent_of(const tri_json *object) {
    double sent = 0;
    tri__json_members(tri__json_get(object, "sent_bytes"), m) sent += tri__json_number_value(m->value);
    return sent;
}

/* Several ranks: a line each. */
static tri_status print_ranks(const tri_cli *cli, const tri_json *ranks) {
    tri_text_table table = {0};
    const tri_json *kinds = tri__json_get(tri__json_at(ranks, 0), "kinds");
    char text[32];
    int used[CLASSES];
    tri__text_table_add(&table, "rank");
    for (size_t i = 0; i < CLASSES; i++)
        if ((used[i] = is_used(ranks, classes[i].key))) tri__text_table_more(&table, "%s", classes[i].name);
    tri__text_table_more(&table, "sent in a step");
    tri__json_items(kinds, kind) tri__text_table_more(&table, "if %s", tri__text_in(kind, "kind"));
    tri__json_items(ranks, rank) {
        tri__text_table_add(&table, "%lld", tri__whole_in(rank, "rank"));
        for (size_t i = 0; i < CLASSES; i++) {
            double bytes = (double)tri__whole_in(tri__json_get(rank, "bytes"), classes[i].key);
            if (used[i]) tri__text_table_more(&table, "%s", tri__text_bytes(bytes, text));
        }
        tri__text_table_more(&table, "%s", tri__text_bytes(sent_of(rank), text));
        for (size_t k = 0; k < tri__json_size(kinds); k++)
            tri__text_table_more(&table, "%s",
                                 tri__text_bytes(sent_of(tri__json_at(tri__json_get(rank, "kinds"), k)), text));
    }
    tri__text_table_fold(&table);
    return tri__print_table(cli, &table);
}

static void print_experts(const tri_cli *cli, const tri_json *experts) {
    char count[3][32];
    long long layers = (long long)tri__whole_in(experts, "layers");
    if (!experts) return;
    fprintf(cli->out,
            "%lld layer%s of experts: %s parameters are active for a token; at most %s + %s rows of experts\n", layers,
            layers == 1 ? "" : "s", tri__text_count(tri__whole_in(experts, "active_parameters"), count[0]),
            tri__text_count(tri__whole_in(experts, "primary_rows"), count[1]),
            tri__text_count(tri__whole_in(experts, "secondary_rows"), count[2]));
}

/* serves: the plan has no step of training. */
static tri_status print_facts(const tri_cli *cli, const tri_json *facts, int serves, int check) {
    const tri_json *largest = tri__json_get(facts, "largest_microbatch");
    char count[7][32], windows[80] = "", trained[48] = "";
    if (tri__json_get(facts, "trained"))
        snprintf(trained, sizeof trained, ", %s trained", tri__text_count(tri__whole_in(facts, "trained"), count[6]));
    if (tri__json_get(largest, "primary_windows"))
        snprintf(windows, sizeof windows, " in %s + %s windows",
                 tri__text_count(tri__whole_in(largest, "primary_windows"), count[4]),
                 tri__text_count(tri__whole_in(largest, "secondary_windows"), count[5]));
    fprintf(cli->out, "%s parameters%s; %lld microbatch%s of at most %s sample%s, %s + %s tokens%s\n",
            tri__text_count(tri__whole_in(facts, "parameters"), count[0]), trained,
            (long long)tri__whole_in(facts, "microbatches"), tri__whole_in(facts, "microbatches") == 1 ? "" : "es",
            tri__text_count(tri__whole_in(largest, "samples"), count[1]),
            tri__whole_in(largest, "samples") == 1 ? "" : "s",
            tri__text_count(tri__whole_in(largest, "primary_tokens"), count[2]),
            tri__text_count(tri__whole_in(largest, "secondary_tokens"), count[3]), windows);
    print_experts(cli, tri__json_get(facts, "experts"));
    fputc('\n', cli->out);
    const tri_json *ranks = tri__json_get(facts, "ranks");
    int beside = tri__json_size(ranks) == 1 && !serves;
    TRI_TRY(beside ? print_rank(cli, tri__json_at(ranks, 0), tri__json_get(facts, "infer")) : print_ranks(cli, ranks));
    if (tri__json_get(facts, "kept_bytes"))
        fprintf(cli->out, "\nreplicated state: %s on all ranks together, in shared memory\n",
                tri__text_bytes((double)tri__whole_in(facts, "kept_bytes"), count[0]));
    if (tri__whole_in(facts, "kept_sent"))
        fprintf(cli->out, "                  %s of it is sent to other machines in each step\n",
                tri__text_bytes((double)tri__whole_in(facts, "kept_sent"), count[0]));
    if (!check || !tri__json_is_true(tri__json_get(facts, "checked"))) return TRI_OK;
    fputs("\nchecked: operands fit their operations; nothing is read before it is written or after its memory was\n"
          "reused; no output overlaps another operand; all slots are inside their class's allocation\n",
          cli->out);
    if (tri__json_size(ranks) > 1)
        fputs("all ranks: every send matches its receive; groups agree on each transfer, its size and its order;\n"
              "nothing is touched while it is in flight; nothing deadlocks\n",
              cli->out);
    return TRI_OK;
}

/* Prints the views requested instead of the tables; *shown: whether there were any. */
static tri_status print_views(const tri_cli *cli, const tri_json *facts, int timeline, int *shown) {
    const tri_json *simulation = tri__json_get(facts, "simulation"), *csv = tri__json_get(facts, "csv");
    const tri_json *params = tri__json_get(facts, "params");
    *shown = simulation || csv || params;
    if (csv) fputs(tri__json_string_value(csv), cli->out);
    if (params) TRI_TRY(tri__print_params(cli, params));
    if (timeline) TRI_TRY(tri__print_timeline(cli, simulation));
    return simulation ? tri__print_spent(cli, simulation) : TRI_OK;
}

static void print_passes(FILE *out) {
    for (const tri_pass_row *row = tri__passes; row->name; row++)
        fprintf(out, "%-13s %s%s%s%s\n", row->name, row->does, row->needs ? " [" : "", row->needs ? row->needs : "",
                row->needs ? "]" : "");
}

static tri_status check_pass(const char *name) {
    char names[512] = "";
    if (!name || tri__pass_find(name)) return TRI_OK;
    for (const tri_pass_row *row = tri__passes; row->name; row++)
        tri__text_append(names, sizeof names, ", ", "%s", row->name);
    return tri__fail(TRI_USAGE, "--print-after %s: there is no such pass; those are %s", name, names);
}

/* A printed program is all that is printed: other views are refused, not left out. --svg writes a file, and with --json
 * everything is printed. Between passes there is no step to prove, draw or time. */
static tri_status check_views(const tri_settings *s) {
    const char *view = s->timeline ? "--timeline" : s->csv ? "--csv" : s->params ? "--params" : NULL,
               *hardware = s->hardware ? "--hardware" : NULL, *svg = s->svg ? "--svg" : NULL;
    if (s->print_after) {
        const char *other = s->check ? "--check" : s->timeline ? view : svg ? svg : view ? view : hardware;
        if (!other) return TRI_OK;
        return tri__fail(TRI_USAGE, "--print-after %s prints a program between two passes and stops there: leave out "
                         "%s, or --print-after", s->print_after, other);
    }
    const char *other = view ? view : svg ? NULL : hardware;
    if (s->print_program == TRI_PRINT_NONE || s->json || !other) return TRI_OK;
    return tri__fail(TRI_USAGE, "--print-program prints a program and nothing else: leave out %s, or --print-program",
                     other);
}

/* What other programs' files are in our own words, {"line", "options", "not_kept"}. */
static tri_status print_translation(const tri_cli *cli, const tri_settings *s) {
    TRI_OWNED(tri__json_drop) tri_json *options = tri__settings_translated(s);
    tri_buffer line = {0};
    size_t size;
    tri__buffer_put(&line, "trident train");
    tri__json_members(options, m) {
        char flag[TRI_OPTION_FLAG], typed[TRI_OPTION_TYPED];
        const char *text = tri__option_typed(m->value, ',', typed);
        TRI_OWNED(tri__free_at) char *word = tri__text_quoted(text ? text : "");
        tri__buffer_put(&line, " %s %s", tri__option_flag(m->key, flag), word ? word : "");
        line.failed |= !word;
    }
    TRI_OWNED(tri__free_at) char *text = tri__buffer_take(&line, &size);
    if (!text || !options) return tri__fail(TRI_RESOURCE, "out of memory");
    if (s->json)
        TRI_TRY(tri__print_json_new(cli->out,
                                    tri__json_pack("{s:s, s:O, s:o}", "line", text, "options", options,
                                                   "not_kept", tri__json_strings(s->refused.at, s->refused.n))));
    if (!s->json) fprintf(cli->out, "%s\n%s", text, s->refused.n ? "\nnot kept:\n" : "");
    for (int i = 0; i < s->refused.n && !s->json; i++) fprintf(cli->out, "  %s\n", s->refused.at[i]);
    return TRI_OK;
}

static tri_status print(const tri_cli *cli, const tri_settings *settings, int serves, tri_json *facts,
                        const char *program) {
    int shown;
    if (settings->json && program) tri__json_set_new(facts, "program", tri__json_string(program));
    if (settings->json) return tri__print_json(cli->out, facts);
    if (program) {
        fputs(program, cli->out);
        return TRI_OK;
    }
    TRI_TRY(print_views(cli, facts, settings->timeline, &shown));
    return shown ? TRI_OK : print_facts(cli, facts, serves, settings->check);
}

tri_status tri__command_plan(tri_cli *cli, tri_command_call *call) {
    tri_settings *settings = &call->settings;
    TRI_OWNED(tri__json_drop) tri_json *facts = NULL;
    TRI_OWNED(tri__free_at) char *program = NULL;
    int serves = 0;
    if (settings->print_after && strcmp(settings->print_after, "help") == 0) {
        print_passes(cli->out);
        return TRI_OK;
    }
    TRI_TRY(check_pass(settings->print_after));
    TRI_TRY(check_views(settings));
    if (!settings->config && (settings->deepspeed || settings->accelerate || settings->training_arguments))
        return print_translation(cli, settings);
    TRI_TRY(tri__cli_hardware(settings, 0));
    if (!settings->config) return tri__fail(TRI_USAGE, "plan needs --config");
    TRI_TRY(tri__pictures_check(settings, NULL, 0));
    tri_settings resolved = *settings;
    TRI_TRY(tri__study_accept(&resolved, &serves));
    TRI_TRY(tri__write_map(settings));
    if (settings->print_after) {
        TRI_TRY(tri__study_passes(settings, &call->log, &program));
        facts = tri__json_object();
    } else {
        TRI_TRY(tri__study_plan(settings, &call->log, &facts, &program));
        TRI_TRY(tri__write_timeline(settings, tri__json_get(facts, "simulation")));
    }
    return print(cli, settings, serves, facts, program);
}
