/* plan_timeline.c - a simulated step, drawn and in figures. */
#include "cli/cli.h"

#include "report/text/text_table.h"

enum { WIDTH = 120, LEAST = 40 }; /* columns, if the terminal's width is unknown; least width of the drawing */

/* One column of a row: the leg that takes most of its time. */
typedef struct cell {
    char kind;         /* 0: nothing */
    int mb;
    double most, busy; /* seconds of that leg, of all legs */
} cell;

/* How a step's times are printed: in seconds from 10 s on, else in milliseconds, with enough digits to tell ranks
 * apart. */
typedef struct time_unit {
    double per_second;
    const char *name;
    int digits;
} time_unit;
static time_unit unit_of(const tri_json *simulation) {
    double seconds = tri__number_in(simulation, "step_seconds");
    return seconds >= 10 ? (time_unit){1, "s", 1} : (time_unit){1e3, "ms", seconds >= 0.01 ? 1 : 3};
}

static const char *color_of(char kind) {
    return kind == 'F' ? "\033[34m" : kind == 'B' ? "\033[32m" : kind == 'W' ? "\033[33m" : "\033[35m";
}

/* Adds a leg [kind, microbatch, begin, end] to the columns that it touches; `each` seconds a column. */
static void add_leg(cell *cells, int n, double each, const tri_json *leg) {
    double begin = tri__json_number_value(tri__json_at(leg, 2)), end = tri__json_number_value(tri__json_at(leg, 3));
    for (int c = (int)(begin / each); c < n && c * each < end; c++) {
        double share = fmin(end, (c + 1) * each) - fmax(begin, c * each);
        cells[c].busy += share;
        if (share <= cells[c].most) continue;
        cells[c].most = share;
        cells[c].kind = *tri__json_string_value(tri__json_at(leg, 0));
        cells[c].mb = (int)tri__json_integer_value(tri__json_at(leg, 1));
    }
}

/* A run of equal columns: the letter, the number if it fits, the letter repeated. */
static void put_run(const tri_cli *cli, const cell *first, int n) {
    char number[16] = "";
    if (first->kind && first->mb >= 0) snprintf(number, sizeof number, "%d", first->mb);
    int digits = (int)strlen(number);
    if (digits >= n) digits = 0;
    if (first->kind && cli->out_color) fputs(color_of(first->kind), cli->out);
    for (int i = 0; i < n; i++)
        fputc(!first->kind ? '.' : i >= 1 && i <= digits ? number[i - 1] : first->kind, cli->out);
    if (first->kind && cli->out_color) fputs("\033[0m", cli->out);
}

static void put_row(const tri_cli *cli, cell *cells, int n, double each) {
    for (int c = 0; c < n; c++)
        if (cells[c].busy < each / 2) cells[c].kind = 0;
    for (int c = 0, next; c < n; c = next) {
        for (next = c + 1;
             next < n && cells[next].kind == cells[c].kind && (!cells[c].kind || cells[next].mb == cells[c].mb);)
            next++;
        put_run(cli, &cells[c], next - c);
    }
    fputc('\n', cli->out);
}

tri_status tri__print_timeline(const tri_cli *cli, const tri_json *simulation) {
    const tri_json *ranks = tri__json_get(simulation, "ranks");
    char text[32];
    int label = snprintf(text, sizeof text, "%zu", tri__json_size(ranks) - 1),
        n = (cli->width ? cli->width : WIDTH) - label - 6;
    if (n < LEAST) n = LEAST;
    double seconds = tri__number_in(simulation, "step_seconds"), each = seconds / n;
    TRI_OWNED(tri__free_at) cell *cells = malloc((size_t)n * sizeof *cells);
    if (!cells) return tri__fail(TRI_RESOURCE, "out of memory");
    const tri_json *drawn = NULL; /* ranks of one role share their legs */
    tri__json_each(ranks, i, rank) {
        const tri_json *legs = tri__json_get(rank, "legs");
        if (legs != drawn) {
            memset(cells, 0, (size_t)n * sizeof *cells);
            tri__json_items(legs, leg) add_leg(cells, n, each, leg);
            drawn = legs;
        }
        fprintf(cli->out, "rank %*zu ", label, i);
        put_row(cli, cells, n, each);
    }
    time_unit unit = unit_of(simulation);
    int right = snprintf(text, sizeof text, "%.*f %s", unit.digits, unit.per_second * seconds, unit.name);
    fprintf(cli->out, "%*s0%*s%s\n", label + 6, "", n - 1 - right, "", text);
    fputs("F forward, B backward, W weight gradients, U update, . idle; digits: microbatch\n\n", cli->out);
    return TRI_OK;
}

/* The rank with the most of something. */
static const tri_json *most_of(const tri_json *ranks, const char *key) {
    const tri_json *most = tri__json_at(ranks, 0);
    tri__json_items(ranks, rank) if (tri__number_in(rank, key) > tri__number_in(most, key)) most = rank;
    return most;
}

static void print_sums(const tri_cli *cli, const tri_json *simulation) {
    const tri_json *ranks = tri__json_get(simulation, "ranks"), *most = most_of(ranks, "activation_bytes");
    const char *kind = tri__text_in(simulation, "kind");
    char bytes[32];
    time_unit unit = unit_of(simulation);
    fprintf(
        cli->out,
        "on %s a step%s%s takes %.*f %s (%.4g samples/s): ranks compute %.1f %% of it; predicted bubble %.1f %%, of "
        "which %.1f %% wait for bytes and %.1f %% for others\n",
        tri__text_in(simulation, "hardware"), kind ? " of kind " : "", kind ? kind : "",
        unit.digits, unit.per_second * tri__number_in(simulation, "step_seconds"), unit.name,
        tri__number_in(simulation, "samples_per_second"), 100 * tri__number_in(simulation, "computing"),
        100 * tri__number_in(simulation, "predicted_bubble"), 100 * tri__number_in(simulation, "exposed"),
        100 * tri__number_in(simulation, "waiting"));
    if (tri__json_get(simulation, "all_layers_seconds"))
        fprintf(cli->out,
                "steps leave layers out: this is the expected step; with all layers it takes %.*f %s, with none %.*f\n",
                unit.digits, unit.per_second * tri__number_in(simulation, "all_layers_seconds"), unit.name, unit.digits,
                unit.per_second * tri__number_in(simulation, "no_layers_seconds"));
    fprintf(cli->out, "most activations: rank %d, %s", (int)tri__number_in(most, "rank"),
            tri__text_bytes(tri__number_in(most, "activation_bytes"), bytes));
    if (tri__json_get(most, "microbatches_held"))
        fprintf(cli->out, ", those of %.4g microbatch%s at once", tri__number_in(most, "microbatches_held"),
                tri__number_in(most, "microbatches_held") == 1 ? "" : "es");
    fputc('\n', cli->out);
}

/* Adds ", LABEL VALUE" to a line where the forecast has it. */
static void put_seconds(const tri_cli *cli, const tri_json *forecast, const char *key, const char *label) {
    char text[32];
    if (tri__json_get(forecast, key))
        fprintf(cli->out, ", %s %s", label, tri__text_seconds(tri__number_in(forecast, key), text));
}

/* The run, where its length is known; else its rates. */
static void print_forecast(const tri_cli *cli, const tri_json *simulation) {
    const tri_json *f = tri__json_get(simulation, "forecast");
    char text[32];
    if (!f) return;
    if (tri__json_get(f, "run_seconds")) {
        fprintf(cli->out, "a run of %.0f step%s takes %s: start-up %s", tri__number_in(f, "steps"),
                tri__number_in(f, "steps") == 1 ? "" : "s", tri__text_seconds(tri__number_in(f, "run_seconds"), text),
                tri__number_in(f, "start_up_seconds") > 0 ? "" : "not known");
        if (tri__number_in(f, "start_up_seconds") > 0)
            fputs(tri__text_seconds(tri__number_in(f, "start_up_seconds"), text), cli->out);
        put_seconds(cli, f, "epoch_seconds", "an epoch");
        put_seconds(cli, f, "validation_seconds", "a validation");
        put_seconds(cli, f, "checkpoint_seconds", "a checkpoint");
        fputs(tri__json_get(f, "checkpoint_seconds") ? "\n"
                                                     : " (checkpoints left out: the hardware has no disk rate)\n",
              cli->out);
    }
    fprintf(cli->out, "%.4g samples/s, %.4g tokens/s", tri__number_in(f, "samples_per_second"),
            tri__number_in(f, "tokens_per_second"));
    if (tri__json_get(f, "mfu")) fprintf(cli->out, ", MFU %.1f %%", 100 * tri__number_in(f, "mfu"));
    if (tri__number_in(f, "loader_seconds") >= tri__number_in(f, "step_seconds"))
        fputs("; the loader takes longer than a step and sets the pace: more --num-workers", cli->out);
    if (tri__json_get(f, "cost")) fprintf(cli->out, "; the run costs %.2f", tri__number_in(f, "cost"));
    if (tri__json_get(f, "cost_of_epoch")) fprintf(cli->out, ", an epoch %.2f", tri__number_in(f, "cost_of_epoch"));
    if (tri__json_get(f, "energy_kwh")) fprintf(cli->out, "; it takes %.3g kWh", tri__number_in(f, "energy_kwh"));
    fputc('\n', cli->out);
}

/* Microbatches that a rank holds, if known. */
static const char *held_text(const tri_json *rank, char text[static 32]) {
    snprintf(text, 32, "%.4g", tri__number_in(rank, "microbatches_held"));
    return tri__json_get(rank, "microbatches_held") ? text : "-";
}

/* Steps of several kinds: how many, how long, what a rank sends. */
static tri_status print_kinds(const tri_cli *cli, const tri_json *simulation) {
    const tri_json *kinds = tri__json_get(simulation, "kinds");
    tri_text_table table = {0};
    time_unit unit = unit_of(simulation);
    double sent = 0;
    char bytes[32];
    if (!kinds) return TRI_OK;
    tri__text_table_add(&table, "kind of step\tof all steps\ta step, %s\tsent by a rank", unit.name);
    tri__json_items(kinds, one) {
        tri__text_table_add(&table, "%s\t%.3g %%\t%.*f\t%s", tri__text_in(one, "kind"),
                            100 * tri__number_in(one, "share"), unit.digits,
                            unit.per_second * tri__number_in(one, "step_seconds"),
                            tri__text_bytes(tri__number_in(one, "sent_bytes"), bytes));
        sent += tri__number_in(one, "share") * tri__number_in(one, "sent_bytes");
    }
    tri__text_table_add(&table, "mean\t\t%.*f\t%s", unit.digits,
                        unit.per_second * tri__number_in(simulation, "mean_step_seconds"),
                        tri__text_bytes(sent, bytes));
    fputc('\n', cli->out);
    return tri__print_table(cli, &table);
}

tri_status tri__print_spent(const tri_cli *cli, const tri_json *simulation) {
    const tri_json *ranks = tri__json_get(simulation, "ranks");
    tri_text_table table = {0};
    char bytes[32], held[32];
    time_unit unit = unit_of(simulation);
    double per = unit.per_second;
    int d = unit.digits;
    print_sums(cli, simulation);
    print_forecast(cli, simulation);
    TRI_TRY(print_kinds(cli, simulation));
    tri__text_table_add(&table, "rank\tpp\tcomputes, %s\tfor bytes\tfor others\tmoves\tactivations\tmicrobatches",
                        unit.name);
    tri__json_items(ranks, rank) tri__text_table_add(
        &table, "%d\t%d\t%.*f\t%.*f\t%.*f\t%.*f\t%s\t%s", (int)tri__number_in(rank, "rank"),
        (int)tri__number_in(rank, "stage"), d, per * tri__number_in(rank, "computing_seconds"), d,
        per * tri__number_in(rank, "exposed_seconds"), d, per * tri__number_in(rank, "waiting_seconds"), d,
        per * tri__number_in(rank, "moving_seconds"), tri__text_bytes(tri__number_in(rank, "activation_bytes"), bytes),
        held_text(rank, held));
    tri__text_table_fold(&table);
    fputc('\n', cli->out);
    return tri__print_table(cli, &table);
}
