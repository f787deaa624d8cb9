/* validation_file.c - validation-last.csv and validation-best.csv: the probabilities of the last and of the best
 * validation, with columns row, label, p_<class>, ... Rows are numbered from 1 in their table, also where validation
 * has a part of it, without those that were skipped as bad. */
#include "report/sinks/sinks.h"

#include "base/file.h"

enum { MOST_FIELDS = 32 << 20 }; /* probabilities of a file; a validation with more keeps none */

static const char *const names[] = {"validation-last.csv", "validation-best.csv"};

static void put_table(tri_buffer *out, const tri_event *event) {
    const tri_scores *scores = event->valid;
    tri__buffer_put(out, "row,label");
    for (int c = 0; c < scores->n_classes; c++) {
        tri__buffer_add(out, ",", 1);
        tri__buffer_csv(out, ',', "p_", scores->label[c], strlen(scores->label[c]));
    }
    for (int64_t i = 0; i < scores->rows; i++) {
        tri__buffer_put(out, "\n%lld,", (long long)(event->rows ? event->rows[i] : i) + 1);
        const char *label = scores->label[event->labels[i]];
        tri__buffer_csv(out, ',', "", label, strlen(label));
        for (int c = 0; c < scores->n_classes; c++)
            tri__buffer_put(out, ",%.9g", (double)event->probs[i * scores->n_classes + c]);
    }
    tri__buffer_add(out, "\n", 1);
}

/* The first `n` of the names get the text; NULL: they are removed. */
static tri_status set_files(const char *folder, int n, const char *text, size_t size) {
    for (int i = 0; i < n; i++) {
        TRI_PATH(path, folder, names[i]);
        if (text) TRI_TRY(tri__file_write(path, text, size));
        else (void)tri__file_remove(path);
    }
    return TRI_OK;
}

/* context: the folder */
static tri_status emit(void *context, const tri_event *event) {
    if (event->kind == TRI_EVENT_START && event->step == 0) return set_files(context, 2, NULL, 0); /* an earlier run */
    const tri_scores *scores = event->valid;
    if (event->kind != TRI_EVENT_EPOCH || !scores || !event->probs) return TRI_OK;
    if (scores->is_number || scores->rows * scores->n_classes > MOST_FIELDS) return set_files(context, 2, NULL, 0);
    tri_buffer out = {0};
    size_t size;
    put_table(&out, event);
    TRI_OWNED(tri__free_at) char *text = tri__buffer_take(&out, &size);
    if (!text) return tri__fail(TRI_RESOURCE, "no memory for validation-last.csv");
    return set_files(context, event->best ? 2 : 1, text, size);
}

tri_status tri__validation_open(const char *folder, tri_sink *sink) {
    return tri__folder_sink(folder, emit, "validation-last.csv", sink);
}
