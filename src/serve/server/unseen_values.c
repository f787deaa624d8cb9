/* unseen_values.c - values of requests that training did not have in a column of categories: counted for /metrics and
 * /info with examples, and said once for each column of a loaded model. */
#include "serve/server/server_parts.h"

void tri__server_unseen(tri_server *server, tri_live *live, const tri_encoded *encoded) {
    const tri_unseen *seen = tri__encoded_unseen(encoded);
    if (!seen) return;
    pthread_mutex_lock(&server->mutex);
    for (int c = 0; c < live->facts->n_columns; c++) {
        tri_unseen *to = &live->unseen[c];
        if (seen[c].unseen && !to->unseen)
            tri__say(server->log, TRI_LOG_WARN, "model %s: requests have values in column \"%.80s\" that training did "
                     "not have%s, for example \"%s\"; they count as unknown. This is said once; /metrics and /info go "
                     "on counting", live->name, live->facts->column[c]->name,
                     live->facts->column[c]->joined ? " or joined as rare" : "", seen[c].example[0]);
        tri__unseen_join(to, &seen[c]);
    }
    pthread_mutex_unlock(&server->mutex);
}

void tri__live_unseen(tri_server *server, const tri_live *live, int column, tri_unseen *out) {
    pthread_mutex_lock(&server->mutex);
    *out = live->unseen[column];
    pthread_mutex_unlock(&server->mutex);
}

void tri__put_unseen(tri_server *server, tri_buffer *out) {
    tri__buffer_put(out, "# HELP trident_unseen_values_total Values of category columns that training did not have\n"
                    "# TYPE trident_unseen_values_total counter\n");
    for (int m = 0; m < server->options.n_models; m++) {
        tri_live *live = tri__server_use(server, &server->served[m]);
        for (int c = 0; c < live->facts->n_columns; c++) {
            tri_unseen unseen;
            if (!live->facts->column[c]->category) continue;
            tri__live_unseen(server, live, c, &unseen);
            tri__put_string(out, "trident_unseen_values_total{model=", server->served[m].name);
            tri__put_string(out, ",column=", live->facts->column[c]->name);
            tri__buffer_put(out, "} %lld\n", (long long)unseen.unseen);
        }
        tri__server_release(server, live);
    }
}
