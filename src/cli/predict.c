/* predict.c - `trident predict`: label and probabilities of each row, as CSV (RFC 4180) or, with --json, one object a
 * line. */
#include "cli/cli.h"
#include "cli/sinks.h"

#include "base/file.h"
#include "report/sinks.h"
#include "train/run.h"

#include <stdlib.h>
#include <string.h>

/* Quoted when it holds what would end a field. */
static void put_field(FILE *out, const char *prefix, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        fprintf(out, "%s%s", prefix, text);
        return;
    }
    fprintf(out, "\"%s", prefix);
    for (; *text; text++) fputs(*text == '"' ? "\"\"" : (char[]){*text, 0}, out);
    fputc('"', out);
}

static int best_class(const float *probs, int n_classes) {
    int best = 0;
    for (int c = 1; c < n_classes; c++)
        if (probs[c] > probs[best]) best = c;
    return best;
}

static tri_status put_csv(FILE *out, const tri_predictions *p) {
    fputs("label", out);
    for (int c = 0; c < p->n_classes; c++) {
        fputc(',', out);
        put_field(out, "prob_", p->label[c]);
    }
    fputc('\n', out);
    for (int64_t i = 0; i < p->n; i++) {
        const float *probs = p->probs + i * p->n_classes;
        put_field(out, "", p->label[best_class(probs, p->n_classes)]);
        for (int c = 0; c < p->n_classes; c++) fprintf(out, ",%.9g", (double)probs[c]);
        fputc('\n', out);
    }
    return TRI_OK;
}

static tri_status put_json(FILE *out, const tri_predictions *p) {
    for (int64_t i = 0; i < p->n; i++) {
        const float *probs = p->probs + i * p->n_classes;
        json_t *each = json_object();
        for (int c = 0; c < p->n_classes; c++) json_object_set_new(each, p->label[c], json_real((double)probs[c]));
        json_t *row =
            json_pack("{s:s, s:o}", "label", p->label[best_class(probs, p->n_classes)], "probabilities", each);
        tri_status status = tri__print_json(out, row);
        json_decref(row);
        TRI_TRY(status);
    }
    return TRI_OK;
}

static tri_status put_rows(FILE *out, const tri_predictions *p, int json) {
    return json ? put_json(out, p) : put_csv(out, p);
}

/* To a file: whole or not at all. */
static tri_status write_file(const char *path, const tri_predictions *p, int json) {
    char *data = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&data, &size);
    if (!memory) return tri__fail(TRI_RESOURCE, "out of memory for the predictions");
    tri_status status = put_rows(memory, p, json);
    int lost = ferror(memory);
    if ((fclose(memory) || lost || !data) && status == TRI_OK) /* short of memory, it may close well, without data */
        status = tri__fail(TRI_RESOURCE, "out of memory for the predictions");
    if (status == TRI_OK) status = tri__file_write(path, data, size);
    free(data);
    return status;
}

tri_status tri__command_predict(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    tri_predictions predictions = {0};
    tri_sink sink = {0};
    int n_words = 0;
    tri_status status = tri__cli_settings(&settings, "predict", n, args, NULL, 0, &n_words);
    if (status != TRI_OK) goto done;
    if (!settings.checkpoint || !settings.data_path) {
        status = tri__fail(TRI_USAGE, "predict needs --checkpoint and --data-path");
        goto done;
    }
    status = tri__cli_progress(cli, settings.quiet, &sink);
    if (status != TRI_OK) goto done;
    status = tri__run_predict(&settings, &sink, &predictions);
    if (status != TRI_OK) goto done;
    status = settings.output ? write_file(settings.output, &predictions, settings.json)
                             : put_rows(cli->out, &predictions, settings.json);
    if (status == TRI_OK && settings.output && !settings.quiet)
        fprintf(cli->err, "%lld rows in %s\n", (long long)predictions.n, settings.output);
done:
    tri__progress_close(&sink);
    tri__predictions_free(&predictions);
    tri__settings_free(&settings);
    return status;
}
