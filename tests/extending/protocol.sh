#!/usr/bin/env bash
# protocol.sh - a serving protocol: one file, with its route.
most=1

add() {
    cat >src/serve/server/protocols/labels.c <<'END'
/* labels.c - POST /labels: rows as /predict takes them; the answer is the label of each, one a line. */
#include "serve/server/server_parts.h"

static size_t render(const tri_prediction *told, tri_buffer *out) {
    const tri_model_facts *facts = told->facts;
    for (int64_t i = 0; i < told->rows; i++) {
        const float *probs = told->probs + i * facts->n_classes;
        tri__buffer_put(out, "%s\n", facts->label[tri__decision_class(facts->decision, probs, facts->n_classes)]);
    }
    return 0;
}

static const tri_protocol protocol = {.parse = tri__tei_parse, .render = render};

static void labels(void *context, tri_exchange *exchange) {
    tri__predict(context, exchange, tri__exchange_query(exchange, "model"), &protocol);
}

const tri_http_route tri__routes_labels[] = {{"POST", "/labels", labels, 0, 0}, {0}};
END
}

use() {
    train served
    "$trident" serve served --port 0 >serve.out 2>serve.err &
    server=$!
    trap 'kill $server' EXIT
    for ((left = 400; left > 0; left--)); do grep -q try: serve.out && break || sleep 0.05; done
    url=$(sed -n '1s/.* at \(http:[^;]*\); try: .*/\1/p' serve.out)
    cut -d, -f1-5 data/test.csv >rows.csv
    curl -s "$url/labels?truncate=true" -H 'Content-Type: text/csv' --data-binary @rows.csv >labels.txt
    "$trident" predict --checkpoint served --data-path data/test.csv --quiet -o want.csv || exit 1
    [ "$(wc -l <labels.txt)" = 20 ] && cut -d, -f1 want.csv | tail -n +2 | cmp -s - labels.txt
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
