/* choose.c - `trident choose`: the fastest layouts of a model on a number of ranks, or the fewest ranks that are fast
 * enough. */
#include "cli/choose.h"

#include "report/text/text_table.h"

enum { COMPRESSION_ALLOWED, COMPRESSION_NEVER };

/* "90s", "30min", "2h", "1.5d". */
static tri_status parse_time(const char *text, double *seconds) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    *seconds = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units && end > text && *seconds > 0 && isfinite(*seconds); i++)
        if (strcmp(end, units[i].unit) == 0) {
            *seconds *= units[i].seconds;
            return TRI_OK;
        }
    return tri__fail(TRI_USAGE, "--within: expected a time as 90s, 30min, 2h or 1d, not \"%s\"", text);
}

static tri_status check_time(const char *text) { return parse_time(text, &(double){0}); }

#define OWN(...) TRI_OWN_ROW(tri_choose_own, "choose", __VA_ARGS__)
const tri_option tri__choose_options[] = {
    OWN(INT, top, .value = "10", .min = 1, .max = 1000, .help = "layouts to show, each of another mesh or sharding"),
    OWN(TEXTS, precision, .choices = "any|fp32|bf16|fp16|fp8|int8",
        .help = "arithmetic to choose among, e.g. fp32,bf16; any: all but int8, which no training computes in; "
                "default: the configuration's, since another one changes results"),
    OWN(TEXTS, world_size, .help = "ranks in all; several, e.g. 1,2,4,8: a table with the first choice for each"),
    OWN(TEXTS, layouts,
        .help = "layouts for a table beside the first choice, by options: \"pp=2,dp=4; pp=2,shard=zero3\"; "
                "model=NAME in one: of that model only"),
    OWN(TEXTS, models,
        .help = "models for a table: configuration files, known names (bert-large-cased) or sizes of BERT (24x2048: "
                "layers x width) in the place of --config's encoders"),
    OWN(TEXT, within, .check = check_time,
        .help =
            "instead of --world-size: the fewest ranks that train --epochs or --max-steps in this time, e.g. 30min, "
            "2h"),
    OWN(INT, limit, .value = "400", .min = 0, .max = 1e9,
        .help = "layouts to plan at most; what was left out is said; 0: no limit"),
    OWN(REAL, seconds, .value = "0", .min = 0, .max = 1e9,
        .help = "end the search after this time, once there is a layout to show; what was left out is said; 0: no "
                "limit"),
    OWN(CHOICE, compression, .value = "allowed", .choices = "allowed|never",
        .help = "allowed: where ranks wait for bytes, ways to send fewer are shown too, apart from the exact layouts"),
    OWN(BOOL, exhaustive, .value = "false",
        .help = "plan and simulate every layout, without bounds (slow): the same first choice"),
    TRI_OWN_END(tri_choose_own)};

/* ---- words ---- */

/* Appends options to a command line of TRI_CHOOSE_LINE bytes. */
static tri_status add_option(void *context, const char *key, const char *value) {
    char flag[TRI_OPTION_FLAG], *quoted = tri__text_quoted(value);
    if (!quoted) return tri__fail(TRI_RESOURCE, "out of memory");
    tri__text_append(context, TRI_CHOOSE_LINE, " ", "%s %s", tri__option_flag(key, flag), quoted);
    free(quoted);
    return TRI_OK;
}

/* The keys of a layout. */
static tri_status is_key(void *context, const char *key, const char *value) {
    (void)value;
    return strcmp(context, key) ? TRI_OK : TRI_STOPPED;
}

static int is_of_layout(const char *name) {
    return tri__layout_options(&(tri_layout){0}, 1, NULL, is_key, (void *)name) != TRI_OK;
}

/* An option that was given here and that the run takes as well. */
static tri_status add_typed(const tri_option *row, const void *from, char *line) {
    static const char *const own[] = {"data_path", "device", "nproc_per_node", "nnodes", "batch_size",
                                      "global_batch_size", "json", "quiet", "no_color", "config"};
    if (tri__text_index(row->name, own, sizeof own / sizeof *own) >= 0) return TRI_OK;
    /* plans of layers are searched only where none is given */
    int varies = is_of_layout(row->name) && strcmp(row->name, "tp_plan");
    if (!tri__option_listed(row, "train") || varies) return TRI_OK;
    TRI_OWNED(tri__json_drop) tri_json *value = tri__option_json(row, from);
    char typed[TRI_OPTION_TYPED];
    const char *text = tri__option_typed(value, ',', typed);
    return text ? add_option(line, row->name, text) : TRI_OK;
}

tri_status tri__choose_command(const tri_choose_asked *asked, const tri_layout *l, int64_t global, int world,
                               char out[static TRI_CHOOSE_LINE]) {
    const tri_settings *s = asked->settings;
    const tri_option_set sets[] = {{tri__model_options, (void *)&s->model}, {tri__run_options, (void *)s}};
    int per_node = asked->chooser->hardware.ranks_per_node;
    char number[32];
    *out = 0;
    if (world > per_node) snprintf(out, TRI_CHOOSE_LINE, "mpirun -np %d --map-by ppr:%d:node", world, per_node);
    tri__text_append(out, TRI_CHOOSE_LINE, " ", "trident train");
    TRI_TRY(add_option(out, "config", s->config));
    TRI_TRY(add_option(out, "data_path", s->data_path ? s->data_path : "DATA"));
    if (strcmp(asked->chooser->settings.device, "cpu") != 0)
        TRI_TRY(add_option(out, "device", asked->chooser->settings.device));
    snprintf(number, sizeof number, "%d", world);
    if (world > 1 && world <= per_node) TRI_TRY(add_option(out, "nproc_per_node", number));
    snprintf(number, sizeof number, "%lld", (long long)global);
    TRI_TRY(add_option(out, "global_batch_size", number));
    for (int t = 0; t < 2; t++)
        for (const tri_option *row = sets[t].rows; row->name; row++)
            if (tri__settings_typed(s, (char *)sets[t].into + row->offset))
                TRI_TRY(add_typed(row, sets[t].into, out));
    return tri__layout_options(l, 0, s, add_option, out);
}

/* ---- JSON ---- */

static tri_json *bytes_json(const tri_candidate *c) {
    tri_json *bytes = tri__json_object();
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (tri__mem_is_listed((tri_mem)mem, c->bytes[mem]))
            tri__json_set_new(bytes, tri__mem_name((tri_mem)mem), tri__json_integer(c->bytes[mem]));
    return bytes;
}

/* Throughput against one device; 0: unknown. */
static double times_of(const tri_choose_asked *asked, const tri_choice *choice, const tri_candidate *c) {
    return asked->one > 0 ? (double)choice->global_batch / c->seconds / asked->one : 0;
}

static tri_status candidate_json(const tri_choose_asked *asked, const tri_choice *choice, int i, int world,
                                 tri_json **out) {
    const tri_candidate *c = &choice->best[i];
    char why[TRI_WHY_TEXT], text[TRI_LAYOUT_TEXT], command[TRI_CHOOSE_LINE];
    TRI_TRY(tri__choose_command(asked, &c->layout, choice->global_batch, world, command));
    *out = tri__json_pack("{s:s, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:o, s:s, s:s, s:f, s:f}", "layout",
                          tri__layout_text(&c->layout, text), "options", tri__layout_json(&c->layout), "step_seconds",
                          c->seconds, "samples_per_second", (double)choice->global_batch / c->seconds, "computing",
                          c->computing / c->seconds, "exposed", c->exposed / c->seconds, "waiting",
                          c->waiting / c->seconds, "sent_bytes", c->sent, "need_bytes", (tri_json_int)c->need,
                          "bytes", bytes_json(c), "command", command, "why",
                          i ? tri__choose_why(&choice->best[0], c, why) : "", "times", times_of(asked, choice, c),
                          "efficiency", times_of(asked, choice, c) / world);
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* Layouts with fewer bytes, apart: they change results. */
static tri_json *coded_json(const tri_choice *choice) {
    tri_json *all = tri__json_array();
    char text[TRI_LAYOUT_TEXT];
    for (int i = 0; i < choice->n_coded; i++) {
        const tri_coded_choice *c = &choice->coded[i];
        tri__json_append_new(all, tri__json_pack("{s:s, s:s, s:s, s:o, s:f, s:f, s:f, s:I}", "adds", c->options, "does",
                                                 c->does, "layout", tri__layout_text(&c->of.layout, text), "options",
                                                 tri__layout_json(&c->of.layout), "step_seconds", c->of.seconds,
                                                 "speedup", choice->best[0].seconds / c->of.seconds, "sent_bytes",
                                                 c->of.sent, "need_bytes", (tri_json_int)c->of.need));
    }
    return all;
}

static const char *const ends[] = {"whole", "limit", "seconds", "signal"}; /* by tri_choose_end */

static tri_status choice_json(const tri_choose_asked *asked, const tri_choice *choice, int world, tri_json **out) {
    TRI_OWNED(tri__json_drop) tri_json *layouts = tri__json_array();
    int limited = choice->room.bytes < INT64_MAX;
    for (int i = 0; i < choice->n_best; i++) {
        tri_json *one;
        TRI_TRY(candidate_json(asked, choice, i, world, &one));
        tri__json_append_new(layouts, one);
    }
    *out = tri__json_pack(
        "{s:s, s:i, s:I, s:o, s:i, s:i, s:O, s:o, s:b, s:{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i}}", "hardware",
        choice->hardware.name, "world_size", world, "global_batch_size", (tri_json_int)choice->global_batch,
        "room_bytes", limited ? tri__json_integer(choice->room.bytes) : tri__json_null(), "ranks_together",
        choice->room.by.here / choice->room.by.memories, "ranks_per_node", choice->hardware.ranks_per_node, "layouts",
        layouts, "compressed", coded_json(choice), "partial", choice->ended != TRI_CHOOSE_WHOLE, "searched", "end",
        ends[choice->ended], "space", (tri_json_int)choice->space, "simulated", (tri_json_int)choice->simulated,
        "unfit", (tri_json_int)choice->unfit, "refused", (tri_json_int)choice->refused, "skipped",
        (tri_json_int)choice->skipped, "left", (tri_json_int)choice->left, "doubtful", (tri_json_int)choice->doubtful,
        "bounds_broken", choice->bounds_broken);
    return tri__json_is_whole(*out) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* ---- text ---- */

static void print_memory(FILE *out, const tri_choice *choice) {
    const tri_candidate *c = &choice->best[0];
    char need[32], room[32];
    int together = choice->room.by.here / choice->room.by.memories;
    tri__text_bytes((double)c->need, need), tri__text_bytes((double)choice->room.bytes, room);
    fprintf(out, "memory     %s", need);
    if (together > 1) fprintf(out, " by the %d ranks of a machine", together);
    else fputs(" by the rank that needs most", out);
    if (choice->room.bytes < INT64_MAX) fprintf(out, "; %s %s\n", room, choice->room.origin);
    else fputs("; no limit is known: --memory-limit sets one\n", out);
}

static tri_status print_best(FILE *out, const tri_choose_asked *asked, const tri_choice *choice, int world) {
    const tri_candidate *c = &choice->best[0];
    char text[TRI_LAYOUT_TEXT], time[32], count[32], bytes[32], ranks[32], command[TRI_CHOOSE_LINE];
    double times = times_of(asked, choice, c);
    TRI_TRY(tri__choose_command(asked, &c->layout, choice->global_batch, world, command));
    fprintf(out, "%s rank%s of %s, %s samples a step (--global-batch-size sets another number)\n\n",
            tri__text_count(world, ranks), world == 1 ? "" : "s", choice->hardware.name,
            tri__text_count(choice->global_batch, count));
    fprintf(out, "layout     %s\n", tri__layout_text(&c->layout, text));
    double rate = (double)choice->global_batch / c->seconds;
    fprintf(out, "step       %s, %.*f samples/s\n", tri__choose_time(c->seconds, time), rate < 100, rate);
    if (times > 0 && world > 1)
        fprintf(out, "against    one device with its share of the samples: %.2f x, efficiency %.1f %%\n", times,
                100 * times / world);
    fprintf(out, "waiting    %.1f %% of the step: %.1f %% for bytes, %.1f %% for other ranks\n",
            100 * (1 - c->computing / c->seconds), 100 * c->exposed / c->seconds, 100 * c->waiting / c->seconds);
    fprintf(out, "sent       %s by a rank in a step\n", tri__text_bytes(c->sent, bytes));
    print_memory(out, choice);
    fprintf(out, "run        %s\n", command);
    return TRI_OK;
}

static tri_status print_others(const tri_cli *cli, const tri_choose_asked *asked, const tri_choice *choice,
                               int world) {
    tri_text_table table = {0};
    char text[TRI_LAYOUT_TEXT], time[32], bytes[32], why[TRI_WHY_TEXT];
    if (choice->n_best < 2) return TRI_OK;
    tri__text_table_add(&table, "\tstep\tslower by\tx one device\tefficiency\tmemory\tlayout\twhy");
    for (int i = 1; i < choice->n_best; i++) {
        const tri_candidate *c = &choice->best[i];
        double times = times_of(asked, choice, c);
        tri__text_table_add(&table, "%d\t%s\t%.1f %%", i + 1, tri__choose_time(c->seconds, time),
                            100 * (c->seconds / choice->best[0].seconds - 1));
        if (times > 0) tri__text_table_more(&table, "%.2f\t%.1f %%", times, 100 * times / world);
        else tri__text_table_more(&table, "-\t-");
        tri__text_table_more(&table, "%s\t%s\t%s",
                            tri__text_bytes((double)c->need, bytes), tri__layout_text(&c->layout, text),
                            tri__choose_why(&choice->best[0], c, why));
    }
    fputc('\n', cli->out);
    return tri__print_table(cli, &table);
}

/* What changes results, apart from what does not. */
static tri_status print_coded(const tri_cli *cli, const tri_choice *choice) {
    const tri_candidate *best = &choice->best[0];
    tri_text_table table = {0};
    char text[TRI_LAYOUT_TEXT], time[32], bytes[32];
    if (!choice->n_coded) return TRI_OK;
    fprintf(cli->out, "\nranks of the first wait for bytes %.0f %% of the step; fewer bytes, which change results:\n",
            100 * best->exposed / best->seconds);
    tri__text_table_add(&table, "step\tas fast\tsent\tin addition\tlayout");
    for (int i = 0; i < choice->n_coded; i++) {
        const tri_coded_choice *c = &choice->coded[i];
        tri__text_table_add(&table, "%s\t%.1f x\t%s\t%s\t%s", tri__choose_time(c->of.seconds, time),
                            best->seconds / c->of.seconds, tri__text_bytes(c->of.sent, bytes), c->options,
                            tri__layout_text(&c->of.layout, text));
    }
    return tri__print_table(cli, &table);
}

static void print_search(FILE *out, const tri_choice *choice) {
    char count[32], text[TRI_LAYOUT_TEXT], bytes[32];
    fprintf(out, "\nof %s layouts, %s were simulated", tri__text_count(choice->space, count),
            tri__text_count(choice->simulated, bytes));
    if (choice->unfit) fprintf(out, ", %s do not fit", tri__text_count(choice->unfit, count));
    if (choice->unfit && choice->nearest.index >= 0)
        fprintf(out, " (the nearest, %s, needs %s)", tri__layout_text(&choice->nearest.layout, text),
                tri__text_bytes((double)choice->nearest.need, bytes));
    if (choice->refused) fprintf(out, ", %s cannot be planned", tri__text_count(choice->refused, count));
    if (!choice->left) {
        fputs("; the rest cannot be faster than those shown\n", out);
        return;
    }
    static const char *const what[] = {"", "--limit", "--seconds", "a signal"}, *const then[] = {
        "", "; --limit 0 searches on", "; more --seconds search on", ""};
    fprintf(out, "\n%s ended the search: %s more could be among those shown%s%s%s%s\n", what[choice->ended],
            tri__text_count(choice->left, count), choice->doubtful ? ", " : ", none faster than the first",
            choice->doubtful ? tri__text_count(choice->doubtful, bytes) : "",
            choice->doubtful ? " of them perhaps faster than the first" : "", then[choice->ended]);
}

static tri_status print_choice(const tri_cli *cli, const tri_choose_asked *asked, const tri_choice *choice, int world) {
    TRI_TRY(print_best(cli->out, asked, choice, world));
    TRI_TRY(print_others(cli, asked, choice, world));
    TRI_TRY(print_coded(cli, choice));
    print_search(cli->out, choice);
    return TRI_OK;
}

/* ---- progress ---- */

/* A terminal shows a line that is redrawn; a file or a pipe gets a line now and then. */
typedef struct progress {
    const tri_cli *cli;
    double begun, shown; /* tri__clock() */
    int drawn;
} progress;

static void show_progress(void *context, const tri_choice *choice) {
    static const double REDRAW = 0.2, FIRST = 2, LINE = 10; /* seconds */
    progress *p = context;
    char text[TRI_LAYOUT_TEXT + 256], layout[TRI_LAYOUT_TEXT], time[32], space[32], left[32];
    double now = tri__clock();
    if (now - p->shown < (p->cli->err_terminal ? REDRAW : p->shown > p->begun ? LINE : FIRST)) return;
    p->shown = now;
    snprintf(text, sizeof text, "%.0f s: %lld simulated, %s of %s layouts wait", now - p->begun,
             (long long)choice->simulated, tri__text_count(choice->left, left), tri__text_count(choice->space, space));
    if (choice->n_best)
        tri__text_append(text, sizeof text, "; ", "best so far %s: %s", tri__choose_time(choice->best[0].seconds, time),
                         tri__layout_text(&choice->best[0].layout, layout));
    if (!p->cli->err_terminal) fprintf(p->cli->err, "%s\n", text);
    else fprintf(p->cli->err, "\r\033[K%.*s", p->cli->width > 1 ? p->cli->width - 1 : 79, text);
    fflush(p->cli->err);
    p->drawn = p->cli->err_terminal;
}

static void erase_progress(progress *p) {
    if (p->drawn) fputs("\r\033[K", p->cli->err), fflush(p->cli->err);
    p->drawn = 0;
}

/* ---- the command ---- */

unsigned tri__choose_precisions(const tri_texts *asked) {
    static const char *const names[] = {TRI_PRECISIONS(TRI_NAMED)};
    unsigned mask = 0;
    for (int i = 0; i < asked->n; i++)
        for (int k = 0; k <= TRI_PRECISION_FP8; k++)
            if (strcmp(asked->at[i], names[k]) == 0 || (strcmp(asked->at[i], "any") == 0 && k != TRI_PRECISION_INT8))
                mask |= 1u << k;
    return mask;
}

tri_status tri__choose_prepare(tri_settings *s, int world) {
    for (const tri_option *row = tri__run_options; row->name; row++) {
        void *field = (char *)s + row->offset;
        if (tri__settings_typed(s, field) || !is_of_layout(row->name) || strcmp(row->name, "precision") == 0) continue;
        tri__settings_forget(s, field);
        if (row->kind == TRI_OPTION_INT || row->kind == TRI_OPTION_CHOICE)
            (void)tri__option_set_text(row, s, row->name, row->value);
    }
    s->world_size = world;
    if (!tri__settings_given(s, &s->nproc_per_node)) s->nproc_per_node = world / s->nodes;
    if (world % s->nodes == 0 && (world <= s->nproc_per_node || world % s->nproc_per_node == 0)) return TRI_OK;
    return tri__fail(TRI_USAGE, "--world-size %d cannot be shared by machines alike (--nnodes, --nproc-per-node)",
                     world);
}

/* Steps of the run; 0: unknown. */
static double steps_of(const tri_settings *s, const tri_chooser *chooser, int64_t batch) {
    double rows = chooser->study.rows.data ? (double)chooser->study.rows.data->n : 0,
           steps = (double)s->epochs * ceil(rows / (double)batch);
    return s->max_steps && (!rows || (double)s->max_steps < steps) ? (double)s->max_steps : steps;
}

/* After what was found is shown: exit code 75 if a signal ended the search. */
static tri_status end_of(const tri_cli *cli, int stopped) {
    char name[32];
    if (!stopped) return TRI_OK;
    return tri__fail(TRI_STOPPED, "stopped (%s): what is shown is the best of the layouts simulated so far; run again "
                                  "for the whole search",
                     tri__stop_name(cli->stop, name));
}

/* seconds: of the whole run; 0: unknown. partial: NULL, or whether fewer ranks may do. */
static tri_status tell(const tri_cli *cli, const tri_choose_asked *asked, const tri_choice *choice, int world,
                       double seconds, const int *partial) {
    tri_json *facts = NULL;
    if (!asked->settings->json) return print_choice(cli, asked, choice, world);
    TRI_TRY(choice_json(asked, choice, world, &facts));
    if (seconds > 0) tri__json_set_new(facts, "run_seconds", tri__json_real(seconds));
    if (partial) tri__json_set_new(facts, "partial", tri__json_boolean(*partial));
    return tri__print_json_new(cli->out, facts);
}

static tri_status choose_layout(const tri_cli *cli, tri_choose_asked *asked, const tri_choose_options *how) {
    const tri_settings *s = asked->settings;
    tri_choice choice;
    int world = (int)asked->chooser->settings.world_size;
    int64_t batch = tri__choose_batch(&asked->chooser->settings, world);
    char time[32];
    tri_status found = tri__choose(asked->chooser, world, batch, how, &choice);
    if (found == TRI_OK && choice.ended < TRI_CHOOSE_DEADLINE)
        found = tri__choose_one(asked->chooser, batch > world ? batch / world : 1, how, &asked->one);
    erase_progress(how->context);
    TRI_TRY(found);
    double steps = steps_of(s, asked->chooser, batch), seconds = steps * choice.best[0].seconds;
    TRI_TRY(tell(cli, asked, &choice, world, seconds, NULL));
    if (steps > 0 && !s->json) fprintf(cli->out, "\n%.0f steps take %s\n", steps, tri__choose_time(seconds, time));
    return end_of(cli, choice.ended == TRI_CHOOSE_SIGNAL);
}

static tri_status choose_ranks(const tri_cli *cli, const tri_choose_asked *asked, const tri_choose_options *how,
                               double seconds) {
    const tri_settings *s = asked->settings;
    tri_chooser *chooser = asked->chooser;
    tri_fewest found;
    char a[32], b[32];
    if (!tri__settings_given(s, &s->global_batch_size))
        return tri__fail(TRI_USAGE, "--within compares different numbers of ranks, which have to take the same samples "
                                    "in a step: give --global-batch-size");
    double steps = steps_of(s, chooser, s->global_batch_size);
    if (!(steps > 0))
        return tri__fail(TRI_USAGE, "--within needs the length of the run: --max-steps, or --data-path and --epochs");
    tri_status status = tri__choose_fewest(chooser, s->global_batch_size, seconds, steps, how, &found);
    erase_progress(how->context);
    TRI_TRY(status);
    if (!found.world)
        return tri__fail(TRI_RESOURCE, "no number of ranks of %s trains %.0f steps in %s: %d ranks are the fastest of "
                                       "%d numbers tried, with %s",
                         chooser->hardware.name, steps, tri__choose_time(seconds, a), found.fastest, found.tried,
                         tri__choose_time(found.seconds, b));
    if (!s->json)
        fprintf(cli->out, "%.0f steps in %s need %d rank%s%s, which take %s (%d numbers of ranks were compared)\n\n",
                steps, tri__choose_time(seconds, a), found.world, found.world == 1 ? "" : "s",
                found.partial ? " or fewer" : "", tri__choose_time(found.seconds, b), found.tried);
    TRI_TRY(tell(cli, asked, &found.choice, found.world, found.seconds, &found.partial));
    return end_of(cli, found.stopped);
}

/* The number of ranks that was asked for; 0: none. */
static tri_status world_of(const tri_settings *s, const tri_choose_own *own, int *world) {
    int given = tri__settings_given(s, &s->world_size) || tri__settings_given(s, &s->nproc_per_node);
    *world = own->world_size.n ? atoi(own->world_size.at[0]) : given ? (int)s->world_size : 0;
    if (own->world_size.n && *world < 1)
        return tri__fail(TRI_USAGE, "--world-size: expected numbers of ranks, not \"%s\"", own->world_size.at[0]);
    if (!own->within && !*world)
        return tri__fail(TRI_USAGE, "choose needs --world-size, the number of ranks; or --within, a time");
    return own->within && *world ? tri__fail(TRI_USAGE, "choose takes --world-size or --within, not both") : TRI_OK;
}

static tri_status choose_one(tri_cli *cli, tri_command_call *call, const tri_choose_options *how) {
    const tri_choose_own *own = call->own;
    tri_settings given = call->settings; /* only read: what the configuration gives, too */
    double seconds = 0;
    int world;
    if (own->within) TRI_TRY(parse_time(own->within, &seconds));
    TRI_TRY(world_of(&given, own, &world));
    TRI_TRY(tri__choose_prepare(&call->settings, world ? world : (int)given.nodes));
    TRI_OWNED(tri__chooser_drop) tri_chooser *chooser = NULL;
    TRI_TRY(TRI_NEW(chooser, 1, "a search")); /* large */
    TRI_TRY(tri__chooser_open(&call->settings, 0, &call->log, cli->stop, NULL, chooser));
    tri_choose_asked asked = {.settings = &given, .chooser = chooser};
    return own->within ? choose_ranks(cli, &asked, how, seconds) : choose_layout(cli, &asked, how);
}

tri_status tri__command_choose(tri_cli *cli, tri_command_call *call) {
    const tri_settings *s = &call->settings;
    const tri_choose_own *own = call->own;
    double now = tri__clock();
    progress shown = {.cli = cli, .begun = now, .shown = now};
    const tri_choose_options how = {.top = (int)own->top, .limit = own->limit, .exhaustive = own->exhaustive,
                                    .precisions = tri__choose_precisions(&own->precision),
                                    .propose = own->compression == COMPRESSION_ALLOWED,
                                    .deadline = own->seconds > 0 ? now + own->seconds : 0, .keeps = 1,
                                    .progress = s->quiet ? NULL : show_progress, .context = &shown};
    int table = tri__choose_wants_table(s, own);
    if (how.precisions >> TRI_PRECISION_INT8 & 1)
        return tri__fail(TRI_USAGE, "--precision int8: layouts of training are chosen, which computes in fp32, bf16, "
                                    "fp16 or fp8; bench serve --precision int8 times inference, and --quantize int8 "
                                    "beside another precision trains for it");
    if (!s->config && !own->models.n) return tri__fail(TRI_USAGE, "choose needs --config");
    if (table && own->within)
        return tri__fail(TRI_USAGE, "--within chooses one number of ranks: leave out what makes a table (--layouts, "
                                    "--models, -o, several of --world-size or --hardware)");
    if (table) {
        tri_status status = tri__choose_table(cli, call, &how);
        erase_progress(&shown);
        return status;
    }
    TRI_TRY(tri__cli_hardware(&call->settings, 0));
    return choose_one(cli, call, &how);
}
