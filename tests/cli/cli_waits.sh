# Commands that wait for something that never happens: other ranks, a lock. Each ends by its timeout, and immediately
# when told to stop. A token store that is truncated while in use. Threads that wait for each other on busy cores.
# timeout: 120
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE SLURM_JOB_END_TIME
common=(train --config config.json --data-path data --batch-size 4 --epochs 2 --threads 1)

start() { # ARGS...: in the background; $pid
    last_command="trident $*"
    : >"$err"
    "$trident" "$@" >"$out" 2>"$err" &
    pid=$!
}
# ends MS CODE: it ends with that code within that time after now
ends() {
    checks=$((checks + 1))
    gone "$1" "$pid" || { fail "still there after $1 ms" && kill -KILL "$pid"; }
    wait "$pid"
    code=$?
    expect_code "$2"
}
settled() { sleep 0.6; } # long enough to be waiting, by far; a shorter time only tests less

# ---- Ranks that meet: local rank 0 that nobody joins, and one that finds no local rank 0 ----
export WORLD_SIZE=2 MASTER_PORT=$((20000 + $$ % 20000))
for rank in 0 1; do
    for signal in TERM INT; do
        export RANK=$rank
        start "${common[@]}" --output-dir met
        settled
        kill -$signal "$pid"
        ends 20000 75
        expect_text "$err" "stopped (SIG$signal) while the 2 ranks of this machine met; run again"
    done
done
unset RANK WORLD_SIZE MASTER_PORT

# ---- A run folder that another run holds ----
mkdir held
flock held/.lock sleep 60 &
holder=$!
until [ -e held/.lock ] && ! flock -n held/.lock true; do sleep 0.02; done
start "${common[@]}" --output-dir held
settled
kill -TERM "$pid"
ends 20000 75
expect_text "$err" "stopped (SIGTERM) while held was in use by another run"
start "${common[@]}" --output-dir held --nproc-per-node 2
sleep 2
kill -TERM "$pid"
ends 20000 75
expect "ranks that stop at the start leave no error.json" test ! -e held/error.json
# Ranks are not started for a folder that is taken.
run "${common[@]}" --output-dir held --nproc-per-node 2
expect_code 73
expect_text "$err" "held is in use by another run"
expect "no rank was started" test -z "$(grep -E '^launcher|rank 0' "$err")"
kill "$holder"

# ---- A token store that somebody else has locked ----
run "${common[@]}" --output-dir first --cache-dir cache --quiet
expect_code 0
store=$(ls cache/*.tokens | head -n 1)
flock "$store" sleep 60 &
holder=$!
until ! flock -n "$store" true; do sleep 0.02; done
start "${common[@]}" --output-dir second --cache-dir cache
settled
kill -TERM "$pid"
ends 20000 75
expect_text "$err" "stopped (SIGTERM) while $store was locked by process"
rejects 73 "${common[@]}" --output-dir second --cache-dir cache
kill "$holder"

# ---- A token store that is cut short while it is in use: alone, and on ranks ----
for ranks in 1 2; do
    rm -rf cut
    start "${common[@]}" --epochs 100000 --output-dir cut --nproc-per-node $ranks --log-every 1
    until grep -q "step [0-9]" "$err" || [ ! -d "/proc/$pid" ]; do sleep 0.02; done
    for store in cut/cache/*.tokens; do truncate -s 300 "$store"; done
    ends 20000 74
    expect_text "$err" ".tokens was cut short while it is in use"
done

# ---- Threads that wait for each other sleep soon: on busy cores two take hardly more processor time than one ----
if [ -z "${TRI_SANITIZED:-}" ] && [ "$(nproc)" -gt 1 ]; then
    make_table many.csv 20000 0
    busy=()
    for ((i = 0; i < $(nproc); i++)); do
        timeout 60 bash -c 'while :; do :; done' &
        busy+=($!)
    done
    spent() { # THREADS: processor time of predict, in ms
        local TIMEFORMAT='%3U %3S'
        { time "$trident" predict --checkpoint first --data-path many.csv --threads "$1" --batch-size 256 \
            -o /dev/null --quiet 2>"$err"; } 2>&1 | awk '{ print int(($1 + $2) * 1000) }'
    }
    one=$(spent 1) two=$(spent 2)
    kill "${busy[@]}"
    expect "two threads take $two ms where one takes $one" is "$two" "<" "$((one * 2))"
    start predict --checkpoint first --data-path many.csv --batch-size 1 -o slow.csv
    until grep -q "20,000 rows" "$err" || [ ! -d "/proc/$pid" ]; do sleep 0.02; done
    expect "a bound for OpenMP's waits" grep -qz '^GOMP_SPINCOUNT=[0-9]' "/proc/$pid/environ"
    kill -TERM "$pid"
    ends 20000 75
    OMP_WAIT_POLICY=active start predict --checkpoint first --data-path many.csv --batch-size 1 -o slow.csv
    until grep -q "20,000 rows" "$err" || [ ! -d "/proc/$pid" ]; do sleep 0.02; done
    expect "the user's own policy stands" test -z "$(tr '\0' '\n' <"/proc/$pid/environ" | grep GOMP_SPINCOUNT)"
    kill -TERM "$pid"
    ends 20000 75
fi
finish
