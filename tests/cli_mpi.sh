# cli_mpi.sh - ranks that mpirun started: on one machine, and on two "hosts" that are network namespaces of this one.
# Needs the plug-in and mpirun; the second part also root (namespaces), and is skipped, with the reason, without it.
# timeout: 300
. "$(dirname "$0")/cli_lib.sh"
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

    make_all
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
    expect_text "$out" "rank 0 failed 65: rank 3: row 17 of the table is bad" \
        "rank 1 failed 65: rank 3: row 17 of the table is bad"

    runs "${two[@]}" "$test" join stop 0.5
    expect "a rank that hangs on the other host ends the job" test "$code" != 0
    # Its own machine finds that it hangs; on a busy one, the other machine may miss its signs of life first.
    expect "all know which rank" grep -qE 'rank 0 failed 76: rank 3: (hangs|gave no sign of life)' "$out"

    # Busy for four timeouts, and no false alarm.
    runs "${two[@]}" "$test" join work 0.5
    expect_code 0

    runs "${two[@]}" "$test" join deadlock 0.5
    expect_code 76
    expect_text "$out" "all ranks wait for one another" "recv f32 x 2"

    runs "${two[@]}" "$test" join die
    expect "a rank that died on the other host ends the job" test "$code" != 0
    expect "somebody says which" grep -q 'rank 3' "$out" "$err"

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
