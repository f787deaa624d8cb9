#!/usr/bin/env bash
# rate_schedule.sh - a learning-rate schedule: one row with its formula.
most=1

add() { row src/settings/learning_rates.def 'TRI_RATE(LINEAR' 'TRI_RATE(HALVED, "halved", 0, lr / 2)'; }

use() {
    train rate --lr-schedule halved --warmup-steps 0
    [ "$(sed -n 's/.*"learning_rate":\([^,}]*\).*/\1/p' rate/metrics.jsonl | sort -u)" = 0.0005 ] || exit 1
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
