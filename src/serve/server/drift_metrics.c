/* drift_metrics.c - GET /metrics: of each model's last rows (serve/infer/drift.h) how many they are, how far each
 * column, text length and answer is from training, and the shares of answers. */
#include "serve/server/server_parts.h"

#include "serve/infer/drift.h"

enum { ROWS, PSI, SHARE, GAUGES };
static const char *const gauge[GAUGES][2] = {
    {"trident_drift_rows", "The last rows, which drift is measured on"},
    {"trident_drift_psi", "Population stability index of the last rows: of training; of answers to validation"},
    {"trident_answer_share", "Shares of the last rows by answer: by label, or up to le and above the le before"}};

/* bin: of SHARE; a class by its label, others by their upper end. */
static void put(tri_buffer *out, int g, const tri_live *live, const tri_drift_of *d, int bin, double value) {
    const tri_bins *b = d->bins;
    int is_class = b->of && b->n == live->facts->n_classes && !live->facts->separator;
    char upper[32] = "+Inf";
    tri__buffer_put(out, "%s", gauge[g][0]);
    tri__put_string(out, "{model=", live->name);
    if (g != ROWS) tri__buffer_put(out, ",kind=\"%s\"", d->kind);
    if (g != ROWS) tri__put_string(out, ",name=", b->name);
    if (bin < b->n - 1) snprintf(upper, sizeof upper, "%.6g", (double)b->edge[bin]);
    if (g == SHARE) tri__put_string(out, is_class ? ",label=" : ",le=", is_class ? live->facts->label[bin] : upper);
    tri__buffer_put(out, "} %.9g\n", value);
}

void tri__put_drift(tri_server *server, tri_buffer *out) {
    for (int g = 0; g < GAUGES; g++) {
        tri__buffer_put(out, "# HELP %s %s\n# TYPE %s gauge\n", gauge[g][0], gauge[g][1], gauge[g][0]);
        for (int m = 0; m < server->options.n_models; m++) {
            tri_live *live = tri__server_use(server, &server->served[m]);
            tri_drift_of d;
            for (int at = 0; live->facts->drift && tri__drift_read(live->facts->drift, at, &d); at++) {
                if (g == ROWS && !at) put(out, g, live, &d, 0, (double)d.rows);
                if (g == PSI && !isnan(d.psi)) put(out, g, live, &d, 0, d.psi);
                for (int k = 0; g == SHARE && d.rows && !strcmp(d.kind, "answer") && k < d.bins->n; k++)
                    put(out, g, live, &d, k, (double)d.count[k] / (double)d.rows);
            }
            tri__server_release(server, live);
        }
    }
}
