/* quantize.c - `trident quantize RUN -o DIR`: an int8 model folder, with its figures before and after. */
#include "cli/cli.h"
#include "cli/signals.h"
#include "cli/sinks.h"

#include "base/text.h"
#include "report/sinks/sinks.h"
#include "report/text/text_table.h"
#include "serve/serve.h"

#include <math.h>

typedef struct options {
    double max_drop;
} options;
const tri_option tri__quantize_options[] = {
    TRI_OWN_ROW(options, "quantize", REAL, max_drop, .value = "0.002", .min = 0, .max = 1,
                .help = "largest drop of accuracy and of PR AUC; layers return to 16 bits, the most harmful first, "
                        "until it is kept"),
    {0}};

static double number(const tri_json *object, const char *key) {
    return tri__json_number_value(tri__json_get(object, key));
}

static void add_figures(tri_text_table *table, const char *what, const tri_json *figures, double bytes) {
    char size[32], area[32] = "-";
    if (tri__json_is_number(tri__json_get(figures, "pr_auc")))
        snprintf(area, sizeof area, "%.4f", number(figures, "pr_auc"));
    tri__text_table_add(table, "%s\t%.4f\t%s\t%.6f\t%s", what, number(figures, "accuracy"), area,
                        number(figures, "log_loss"), tri__text_bytes(bytes, size));
}

static tri_status print_facts(const tri_cli *cli, const tri_json *facts) {
    const tri_json *kept = tri__json_get(facts, "layers_in_16_bits"), *name;
    tri_text_table table = {0};
    size_t i, n = tri__json_size(kept);
    int layers = (int)number(facts, "layers");
    tri__text_table_add(&table, "model\taccuracy\tPR AUC\tlog loss\tweights");
    add_figures(&table, "before", tri__json_get(facts, "before"), number(facts, "fp32_bytes"));
    add_figures(&table, "int8", tri__json_get(facts, "after"), number(facts, "bytes"));
    tri_status status = tri__text_table_print(&table, cli->out, cli->out_color);
    tri__text_table_free(&table);
    TRI_TRY(status);
    fprintf(
        cli->out, "\n%s: %d of %d layers in int8, everything else in %s; %.3f of the bytes; drop %.4f on %lld row%s\n",
        tri__json_string_value(tri__json_get(facts, "output_dir")), layers - (int)n, layers,
        tri__json_string_value(tri__json_get(facts, "precision")), number(facts, "bytes") / number(facts, "fp32_bytes"),
        number(facts, "drop"), (long long)number(facts, "rows"), number(facts, "rows") == 1 ? "" : "s");
    tri__json_each(kept, i, name) fprintf(cli->out, "back in 16 bits: %s\n", tri__json_string_value(name));
    return TRI_OK;
}

tri_status tri__command_quantize(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    options own;
    tri_sink sink = {0};
    const tri_log log = tri__sink_log(&sink);
    tri_json *facts = NULL;
    const char *words[1];
    int n_words = 0;
    tri__signals_take(cli, TRI_SIGNAL_MEASURED);
    tri_status status = tri__cli_own_settings(&settings, "quantize", &own, n, args, words, 1, &n_words);
    tri_settings asked = settings; /* borrows its texts */
    if (status == TRI_OK && n_words && settings.checkpoint)
        status = tri__fail(TRI_USAGE, "%s and --checkpoint %s: which model is meant?", words[0], settings.checkpoint);
    if (n_words) asked.checkpoint = (char *)words[0];
    if (status == TRI_OK) status = tri__cli_progress(cli, settings.quiet, &sink);
    if (status == TRI_OK) status = tri__serve_quantize(&asked, own.max_drop, &log, cli->stop, &facts);
    if (status == TRI_OK) status = settings.json ? tri__print_json(cli->out, facts) : print_facts(cli, facts);
    tri__progress_close(&sink);
    tri__json_decref(facts);
    tri__settings_free(&settings);
    return status;
}
