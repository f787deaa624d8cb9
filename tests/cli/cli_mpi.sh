# cli_mpi.sh - ranks that mpirun started: on one machine, and on two "hosts" that are network namespaces of this one.
# Needs the plug-in and mpirun; the second part also root (namespaces), and is skipped, with the reason, without it.
# timeout: 420
. "$(dirname "$0")/../lib/cli_lib.sh"
test=$TRI_BUILD/tests/test_exchange
skip() {
    echo "$*"
    exit 77
}
[ -e "$TRI_BUILD/libtrident_mpi.so" ] || skip "the MPI plug-in is not built: no mpicc here"
command -v mpirun >/dev/null || skip "there is no mpirun here"
mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
[ -n "${TRI_SANITIZED:-}" ] && skip "under a sanitizer; test_exchange has the same over threads"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
local=(mpirun --oversubscribe --bind-to none -np 4)

# runs COMMAND...: as `run`, for any command; its exit code is in $code.
runs() {
    last_command="$*"
    local begin=$(date +%s)
    timeout -k 2 90 "$@" >"$out" 2>"$err"
    code=$?
    expect "it ends within 60 s" test $(($(date +%s) - begin)) -lt 60
}
digests() { grep digest "$1" | sort; }

"$test" local 4 | sort >"$work/want"
expect "four ranks' digests over shared memory" test "$(wc -l <"$work/want")" = 4

# ---- One machine: MPI brings the ranks together, shared memory does the rest ----
runs "${local[@]}" "$test" join digest
expect_code 0
digests "$out" >"$work/have"
expect "the same bits under mpirun as over shared memory" cmp -s "$work/want" "$work/have"
runs "${local[@]}" "$test" join native
expect_code 0
expect_text "$out" "rank 3 native 4 8 6"

runs "${local[@]}" "$test" join fail
expect_code 65
expect_text "$out" "rank 0 failed 65: rank 3: row 17 of the table is bad" \
    "rank 2 failed 65: rank 3: row 17 of the table is bad"

runs "${local[@]}" "$test" join stop 0.5
expect "a rank that hangs ends the job" test "$code" != 0
expect_text "$out" "rank 0 failed 76: rank 3: hangs"

runs "${local[@]}" "$test" join die
expect "a rank that died ends the job" test "$code" != 0
expect "somebody says which (mpirun may be faster than the ranks)" grep -q 'rank 3' "$out" "$err"

# ---- MPI_Finalize that never returns, in one rank: bounded, after all was written; signals end the rank at once ----
make_all
cat >hangs.c <<'END'
#include <stdlib.h>
#include <unistd.h>
int MPI_Finalize(void);
int PMPI_Finalize(void);
int MPI_Finalize(void) {
    if (getenv("OMPI_COMM_WORLD_RANK")[0] != '1') return PMPI_Finalize();
    for (;;) pause();
}
END
ended=(mpirun --oversubscribe --bind-to none -np 2 -x "LD_PRELOAD=$work/hangs.so" "$trident" train --config config.json
    --data-path data --epochs 1 --threads 1 --no-report --quiet --output-dir)
if mpicc -shared -fPIC -o hangs.so hangs.c 2>/dev/null; then
    begin=$(date +%s)
    runs "${ended[@]}" ended
    expect "it ends 10 s after its work" test $(($(date +%s) - begin)) -lt 40
    expect_text "$err" "trident: MPI did not end in time: this process ends without it; its work was done"
    expect_text "$out" "checkpoint  ended/checkpoint-"
    expect_text ended/summary.json '"steps"'
    last_command="${ended[*]} ended2, SIGTERM after its end"
    "${ended[@]}" ended2 >"$out" 2>"$err" &
    pid=$!
    until [ -e ended2/summary.json ] || [ ! -d "/proc/$pid" ]; do sleep 0.05; done
    sleep 1.5
    rank=$(pgrep -f "^$trident train.*--output-dir ended2" | tail -n 1)
    kill -USR1 "${rank:-$pid}"
    sleep 0.3
    expect "it waits in MPI_Finalize, also after SIGUSR1" test -d "/proc/${rank:-none}"
    kill -TERM "${rank:-$pid}"
    expect "SIGTERM ends it at once" gone 2000 "${rank:-$pid}"
    wait "$pid"
    code=$?
    expect_code 143
else
    echo "left out: MPI_Finalize that hangs (no mpicc)"
fi

# ---- Too little of /dev/shm for MPI's own files ----
if unshare -m true 2>/dev/null; then
    runs unshare -m sh -c 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"' sh "${local[@]}" "$test" join digest
    expect_code 71
    expect_text "$out" "/dev/shm is too small for MPI: 4 ranks of this machine need 17 MiB of it, and it has 1.0 MiB" \
        "--shm-size=64m"
else
    echo "left out: a small /dev/shm (mount namespaces are not allowed here)"
fi

# ---- A launcher of another MPI than the plug-in's: no PMI, as under `srun --mpi=none` ----
runs env SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_LOCALID=1 SLURM_NTASKS=2 "$test" join digest
expect_code 2
expect_text "$out" "Slurm (srun) says rank 1 of 2, MPI says rank 0 of 1: the plug-in was built with Open MPI" \
    "\`srun --mpi=pmix\`"
run doctor
expect_text "$out" "plug-in built with Open MPI"

# ---- Two MPIs on one machine: the launcher decides which plug-in is loaded ----
if [ -e "$TRI_BUILD/libtrident_mpi_mpich.so" ] && command -v mpirun.mpich >/dev/null; then
    runs mpirun.mpich -np 4 "$test" join digest
    expect_code 0
    digests "$out" >"$work/have"
    expect "the same bits under MPICH's mpirun" cmp -s "$work/want" "$work/have"
    runs mpirun.openmpi --oversubscribe -np 4 "$test" join digest
    expect_code 0
    runs env PMI_RANK=1 PMI_SIZE=2 SLURM_STEP_ID=0 "$test" join digest
    expect_code 2
    expect_text "$out" "the plug-in was built with MPICH" "\`srun --mpi=pmi2\`"
else
    echo "left out: two MPIs (mpicc.openmpi and mpicc.mpich are not both here)"
fi

# ---- The plug-in is missing ----
mkdir -p elsewhere/tests && cp "$test" elsewhere/tests/
runs "${local[@]}" elsewhere/tests/test_exchange join digest
expect_code 2
expect_text "$out" "the MPI plug-in does not load" "libopenmpi-dev"

# ---- Two hosts ----
id=$$
cleanup() {
    ip netns del "tri_a$id" 2>/dev/null
    ip netns del "tri_b$id" 2>/dev/null
    rm -rf "$work"
}
make_hosts() {
    ip netns add "tri_a$id" && ip netns add "tri_b$id" &&
        ip link add "ta$id" netns "tri_a$id" type veth peer name "tb$id" netns "tri_b$id" &&
        ip -n "tri_a$id" addr add 10.77.0.1/24 dev "ta$id" && ip -n "tri_b$id" addr add 10.77.0.2/24 dev "tb$id" &&
        ip -n "tri_a$id" link set lo up && ip -n "tri_b$id" link set lo up &&
        ip -n "tri_a$id" link set "ta$id" up && ip -n "tri_b$id" link set "tb$id" up && unshare -u true
}
trap cleanup EXIT
if make_hosts >/dev/null 2>"$err"; then
    # What mpirun takes for ssh: enters the second host.
    cat >agent <<END
#!/bin/sh
shift
exec ip netns exec tri_b$id unshare -u sh -c 'hostname trident-b; exec sh -c "\$*"' sh "\$@"
END
    chmod +x agent
    two=(ip netns exec "tri_a$id" unshare -u sh -c 'hostname trident-a; exec "$@"' sh mpirun --oversubscribe
        --bind-to none
        --mca plm_rsh_agent "$work/agent" --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24
        -H 10.77.0.1:2,10.77.0.2:2 -np 4)
    runs "${two[@]}" "$test" join machines
    expect_code 0
    expect_text "$out" "rank 0 machines 2" "rank 3 machines 2"

    for order in slot node; do # ranks 0 and 1 share a host; ranks 0 and 2 do
        runs "${two[@]}" --map-by "$order" "$test" join digest
        expect_code 0
        digests "$out" >"$work/have"
        expect "the same bits on two hosts (by $order) as over shared memory" cmp -s "$work/want" "$work/have"
    done

    train=(train --config "$work/config.json" --data-path "$work/data" --epochs 1 --batch-size 16 --seed 1 --threads 1
        --quiet)
    for how in "--shard none" "--shard zero1 --precision bf16" "--shard zero2 --num-microbatches 4" \
        "--shard zero3 --precision bf16" \
        "--shard hybrid --shard-size 2 --recompute full" "--pp-size 2 --tp-size 2" "--pp-size 4 --schedule zb-h1" \
        "--pp-size 2 --shard zero3 --mesh-order dp,tp,pp" "--tp-size 2 --sequence-parallel no --shard zero1" \
        "--compress-gradients int4 --error-feedback yes" \
        "--shard hybrid --shard-size 2 --compress-gradients int8 --compress-weights int8"; do
        rm -rf one both
        run "${train[@]}" --nproc-per-node 4 --output-dir "$work/one" $how
        expect_code 0
        runs "${two[@]}" "$trident" "${train[@]}" --output-dir "$work/both" $how
        expect_code 0
        expect "$how: the same weights from two hosts as from one" test "$("$trident" digest one)" = \
            "$("$trident" digest both)"
    done

    runs "${two[@]}" "$test" join fail
    expect_code 65
    expect_text "$out" "rank 0 failed 65: rank 3 on trident-b: row 17 of the table is bad" \
        "rank 1 failed 65: rank 3 on trident-b: row 17 of the table is bad"

    runs "${two[@]}" "$test" join stop 0.5
    expect "a rank that hangs on the other host ends the job" test "$code" != 0
    # Its own machine finds that it hangs; on a busy one, the other machine may miss its signs of life first.
    expect "all know which rank" grep -qE 'rank 0 failed 76: rank 3 on trident-b: (hangs|gave no sign of life)' "$out"

    # Busy for four timeouts, and no false alarm.
    runs "${two[@]}" "$test" join work 0.5
    expect_code 0

    runs "${two[@]}" "$test" join deadlock 0.5
    expect_code 76
    expect_text "$out" "all ranks wait for one another" "recv f32 x 2"

    runs "${two[@]}" "$test" join die
    expect "a rank that died on the other host ends the job" test "$code" != 0
    expect "somebody says which" grep -q 'rank 3' "$out" "$err"

    # What only some ranks see names them, and their host; what all see is said once; error.json has all fields.
    cat >hides <<'END'
#!/bin/sh
# FOLDER COMMAND...: the second host sees an empty folder there
folder=$1
shift
[ "$(hostname)" = trident-b ] || exec "$@"
exec unshare -m sh -c 'mount -t tmpfs tmpfs "$0" && exec "$@"' "$folder" "$@"
END
    chmod +x hides
    said_once() { # WHAT TEXT: one line of Trident's says so
        expect "$1, once" test "$(grep -c '^trident: ' "$err")" = 1
        expect_text "$err" "trident: $2"
    }
    short=("$trident" train --config "$work/config.json" --epochs 2 --threads 1 --no-report --quiet --data-path)
    fields='code rank host message cause step phase operation try time ranks others'
    has_fields() {
        for field in $fields exit life waiting last peak_bytes; do expect_text "$1/error.json" "\"$field\":"; done
    }
    mkdir unshared hidden && cp data/*.csv hidden
    runs "${two[@]}" "$work/hides" "$work/unshared" "${short[@]}" "$work/data" --output-dir "$work/unshared"
    expect_code 74
    said_once "a folder that is not shared" "the run folder $work/unshared is not shared: rank 2 on trident-b"
    expect_text "$err" " does not see what rank 0 on trident-a writes there."
    has_fields unshared
    expect "nothing else is left there" test "$(ls -A unshared)" = error.json
    runs "${two[@]}" "$work/hides" "$work/hidden" "${short[@]}" "$work/hidden" --output-dir "$work/blind"
    expect_code 66
    said_once "missing data" "rank 2 on trident-b: $work/hidden: has none of train"
    expect_text "$err" "(the same on 2 of 4 ranks)"
    expect_text blind/error.json '"rank": 2' '"host": "trident-b"' '"try": "check the path'
    has_fields blind
    runs "${two[@]}" "${short[@]}" "$work/none" --output-dir "$work/nodata"
    expect_code 66
    said_once "no data anywhere" "$work/none: no such file or folder (--data-path)"
    expect_text nodata/error.json '"rank": -1' '"host": null'
    runs "${two[@]}" "${short[@]}" "$work/data" --output-dir "$work/usage" --tp-size 3
    expect_code 2
    said_once "wrong usage" "4 ranks = pp 1 x tp 3 x dp ?: no whole number fits"
    expect "no folder is made" test ! -e usage
    runs "${two[@]}" "$work/hides" "$work/hidden" "$trident" train --config "$work/hidden/train.csv" --data-path data
    expect "the code of one of them" grep -qx '2\|66' <<<"$code"
    expect "two hosts fail differently: each says so" \
        test "$(grep -c '^trident: rank [0-3] on trident-[ab]: ' "$err")" = 2
    runs "${two[@]}" "$trident" eval --checkpoint "$work/none" --data-path "$work/data"
    expect_code 66
    expect "eval: once" test "$(grep -c '^trident: ' "$err")" = 1

    # A rank that is killed: no bug, and nobody promises to save what mpirun will not let it save.
    for victim in 3 0; do
        last_command="mpirun on two hosts, SIGKILL to rank $victim"
        "${two[@]}" "$trident" train --config "$work/config.json" --epochs 9999 --threads 1 --no-report --quiet \
            --data-path "$work/data" --output-dir "$work/killed-$victim" >"$out" 2>"$err" &
        pid=$!
        until [ -s "killed-$victim/metrics.jsonl" ] || [ ! -d "/proc/$pid" ]; do sleep 0.05; done
        for p in $(pgrep -f "^$trident train.*--output-dir $work/killed-$victim\$"); do
            tr '\0' '\n' <"/proc/$p/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$victim" && kill -KILL "$p"
        done
        wait "$pid"
        code=$?
        expect_code 137
        host=$([ $victim = 3 ] && echo trident-b || echo trident-a)
        expect_text "killed-$victim/error.json" '"code": 137' "\"rank\": $victim" "\"host\": \"$host\"" "killed"
        has_fields "killed-$victim"
        expect_text "$err" "trident: rank $victim on $host: its process ("
        expect "said once" test "$(grep -c "^trident: rank $victim" "$err")" = 1
        expect "saving is not promised" test "$(grep -c 'finish the step' "$err")" = 0
    done

    # The machines lose each other: ranks fail after 1.25 timeouts, mpirun goes on (for more than 560 s), and is ended
    # 10 s later. Then the link is back, and the run goes on from its last commit. (Open MPI's own daemons have crashed
    # when they were started right after that: further starts are allowed.)
    mkdir apart && cp data/train.csv apart
    long=(train --config "$work/config.json" --data-path "$work/apart" --epochs 20 --batch-size 16 --seed 1
        --threads 1 --save-every 1000
        --save-steps 5 --progress-timeout 5 --quiet)
    run "${long[@]}" --nproc-per-node 4 --output-dir "$work/whole"
    expect_code 0
    last_command="trident supervise -- mpirun, and the link goes down"
    "$trident" supervise --max-restarts 3 -- "${two[@]}" "$trident" "${long[@]}" --output-dir "$work/parted" >"$out" \
        2>"$err" &
    pid=$!
    until [ -e parted/checkpoint-10 ] || [ ! -d "/proc/$pid" ]; do sleep 0.05; done
    ip -n "tri_a$id" link set "ta$id" down
    begin=$(date +%s)
    until grep -q '^trident: the ranks have failed' "$err" || [ ! -d "/proc/$pid" ] ||
        [ $(($(date +%s) - begin)) -gt 90 ]; do
        sleep 0.05
    done
    expect "mpirun is ended, 10 s after its ranks have failed" test $(($(date +%s) - begin)) -lt 80
    expect_text parted/error.json '"code": 76' "gave no sign of life"
    ip -n "tri_a$id" link set "ta$id" up
    wait "$pid"
    code=$?
    expect_code 0
    expect_text "$err" "start 2 of 4"
    expect "after a partition, the same weights" test "$("$trident" digest whole)" = "$("$trident" digest parted)"
else
    echo "left out: two hosts (network namespaces are not allowed here: $(head -n 1 "$err"))"
fi
finish
