/* quantize.c - `trident quantize RUN -o DIR`: an int8 model folder, with its figures before and after. */
#include "cli/cli.h"

#include "report/text/text_table.h"
#include "serve/serve.h"

typedef struct options {
    double max_drop;
} options;
const tri_option tri__quantize_options[] = {
    TRI_OWN_ROW(options, "quantize", REAL, max_drop, .value = "0.002", .min = 0, .max = 1,
                .help = "largest drop of accuracy and of PR AUC, or of R2; layers return to 16 bits, the most harmful "
                        "first, until it is kept"),
    TRI_OWN_END(options)};

static void add_figures(tri_text_table *table, const char *what, const tri_json *figures, double bytes) {
    tri__text_table_add(table, "%s", what);
    tri__json_members(figures, m) { /* an undefined PR AUC is null */
        const char *form = tri__text_ends(m->key, "loss") ? "%.6f" : strcmp(m->key, "rmse") ? "%.4f" : "%.5g";
        tri__text_table_more(table, tri__json_is_number(m->value) ? form : "-", tri__json_number_value(m->value));
    }
    tri__text_table_more(table, "%s", tri__text_bytes(bytes, (char[32]){0}));
}

static tri_status print_facts(const tri_cli *cli, const tri_json *facts) {
    const tri_json *kept = tri__json_get(facts, "layers_in_16_bits");
    tri_text_table table = {0};
    size_t n = tri__json_size(kept);
    int layers = (int)tri__number_in(facts, "layers");
    const tri_json *before = tri__json_get(facts, "before");
    tri__text_table_add(&table, tri__json_get(before, "r2")         ? "model\tR2\tRMSE\tloss\tweights"
                                : tri__json_get(before, "f1_micro") ? "model\tmicro F1\tLRAP\tloss\tweights"
                                                                    : "model\taccuracy\tPR AUC\tlog loss\tweights");
    add_figures(&table, "before", tri__json_get(facts, "before"), tri__number_in(facts, "fp32_bytes"));
    add_figures(&table, "int8", tri__json_get(facts, "after"), tri__number_in(facts, "bytes"));
    TRI_TRY(tri__print_table(cli, &table));
    fprintf(cli->out, "\n%s: %d of %d layers in int8, everything else in %s; %.3f of the bytes; drop %.4f on %lld "
            "row%s\n", tri__text_in(facts, "output_dir"), layers - (int)n, layers, tri__text_in(facts, "precision"),
            tri__number_in(facts, "bytes") / tri__number_in(facts, "fp32_bytes"), tri__number_in(facts, "drop"),
            (long long)tri__number_in(facts, "rows"), tri__number_in(facts, "rows") == 1 ? "" : "s");
    tri__json_items(kept, name) fprintf(cli->out, "back in 16 bits: %s\n", tri__json_string_value(name));
    return TRI_OK;
}

tri_status tri__command_quantize(tri_cli *cli, tri_command_call *call) {
    const options *own = call->own;
    tri_settings asked = call->settings; /* borrows its texts */
    TRI_OWNED(tri__json_drop) tri_json *facts = NULL;
    if (call->n_words && asked.checkpoint)
        return tri__fail(TRI_USAGE, "%s and --checkpoint %s: which model is meant?", call->words[0], asked.checkpoint);
    if (call->n_words) asked.checkpoint = (char *)call->words[0];
    TRI_TRY(tri__serve_quantize(&asked, own->max_drop, &call->log, cli->stop, &facts));
    return asked.json ? tri__print_json(cli->out, facts) : print_facts(cli, facts);
}
