#!/usr/bin/env bash
# pipeline_schedule.sh - an order of the pipeline: one file and one row.
most=2

add() {
    row src/plan/schedule/schedules.def 'TRI_SCHEDULE(1F1B' \
        'TRI_SCHEDULE(EAGER, "eager", eager, .chunks = 1, .fewest = 1)'
    cat >src/plan/schedule/eager.c <<'C'
/* eager.c - one forward more than 1F1B before the first backward. */
#include "plan/schedule/schedule.h"

void tri__order_eager(const tri_pipeline *pipeline, int rank, tri_actions *out) {
    tri__alternate(pipeline, rank, tri__rank_depth(pipeline, rank) + 1, -1, out);
}
C
}

use() {
    local layout="--config base.json --world-size 2 --pp-size 2 --num-microbatches 4 --batch-size 8"
    # shellcheck disable=SC2086
    "$trident" plan $layout --schedule eager --check >plan.log 2>&1 || { cat plan.log >&2; exit 1; }
    # shellcheck disable=SC2086
    "$trident" plan $layout --schedule eager --csv --quiet | grep -q '^0F0,0F1,0F2,0B0' || exit 1
    train plain --nproc-per-node 2 --pp-size 2 --num-microbatches 4
    train eager --nproc-per-node 2 --pp-size 2 --num-microbatches 4 --schedule eager
    [ "$("$trident" digest plain)" = "$("$trident" digest eager)" ] || exit 1
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
