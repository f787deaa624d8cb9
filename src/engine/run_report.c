/* run_report.c - says what runs: arithmetic, optimizer, layout, what is compressed, parameters and memory. */
#include "engine/run_report.h"

enum { LINE = 512 };

/* Adds ", label value" of an option: a choice, or a list of words. */
static void add(char line[static LINE], const tri_settings *s, const char *name, const char *label) {
    const tri_option *row = tri__option_find(tri__run_options, name);
    const void *field = (const char *)s + row->offset;
    char word[TRI_OPTION_FLAG];
    tri__text_append(line, LINE, ", ", "%s", label);
    if (row->kind == TRI_OPTION_CHOICE) {
        tri__text_append(line, LINE, " ", "%s", tri__option_word(row, *(const int *)field, word));
        return;
    }
    const tri_texts *texts = field;
    for (int i = 0; i < texts->n; i++) tri__text_append(line, LINE, i ? "," : " ", "%s", texts->at[i]);
}

static void say_memory(const tri_engine *e, const tri_room *room, const tri_log *log) {
    char need[32], all[32], have[32], together[64] = "";
    if (room->ranks > 1)
        snprintf(together, sizeof together, ", %d ranks together %s", room->ranks,
                 tri__text_bytes((double)room->need, all));
    tri__say(log, TRI_LOG_INFO, "memory     %s planned for the rank that needs most%s; %s %s",
             tri__text_bytes((double)room->most, need), together, tri__text_bytes((double)room->have, have),
             room->limited ? "are allowed (--memory-limit)" : e->device->async ? "of the GPU are free" : "are free");
}

void tri__run_say(const tri_settings *s, const tri_engine *e, const tri_room *room, const tri_log *log) {
    char line[LINE] = "", count[2][32];
    int64_t held = 0;
    add(line, s, "precision", "precision");
    if (s->quantize) add(line, s, "quantize", "products");
    add(line, s, "optimizer", "optimizer");
    add(line, s, "lr_schedule", "learning rate");
    tri__say(log, TRI_LOG_INFO, "training   %s", line);
    *line = 0;
    add(line, s, "shard", "shard");
    if (e->in.mesh.pp > 1) {
        add(line, s, "schedule", "schedule");
        tri__text_append(line, LINE, " ", "(%s)", e->in.staging.shape == TRI_SHAPE_BRANCH ? "branch" : "chain");
    }
    tri__text_append(line, LINE, ", ", "%d microbatch%s", e->n_mb, e->n_mb == 1 ? "" : "es");
    add(line, s, "recompute", "recompute");
    add(line, s, "offload", "offload");
    add(line, s, "compress_gradients", "compressed gradients");
    if (s->compress_weights) add(line, s, "compress_weights", "compressed weights");
    tri__say(log, TRI_LOG_INFO, "layout     %s", line);
    for (int u = 0; u < e->in.model->n_units; u++) held += tri__range_count(e->plan.train.param_part[u]);
    tri__say(log, TRI_LOG_INFO, "parameters %s in all, rank 0 holds %s",
             tri__text_count(e->model.n_elements, count[0]), tri__text_count(held, count[1]));
    say_memory(e, room, log);
}
