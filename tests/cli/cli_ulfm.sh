# cli_ulfm.sh - ranks of an MPI job with ULFM go on without the dead: on one machine, and on several, which are pid
# namespaces of this one; a whole machine may die. Needs an Open MPI of 5.0 or newer, which `make ulfm`
# installs, or in PATH, and root for the namespaces; skipped, with the reason, without it.
# timeout: 300
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli_lib.sh"
root=$(dirname "$(dirname "$here")")
. "$here/ulfm_job.sh"
make_all
common=(train --config config.json --data-path data --global-batch-size 8 --epochs 6 --threads 1 --no-report)
kept=(--elastic --replicate-state)

# hurt_job SIGNAL FOLDER STEP RANKS N OPTIONS...: a job of N ranks, of which RANKS get SIGNAL after STEP; $later once
# the others have gone on.
hurt_job() {
    local signal=$1 folder=$2 step=$3 ranks=$4 n=$5 victims=()
    shift 5
    last_command="mpirun -np $n trident ${common[*]} --output-dir $folder $*, SIG$signal to $ranks after step $step"
    timeout -k 2 60 "${job[@]}" -np "$n" ${EACH:+"$work/enter"} "$trident" "${common[@]}" --output-dir "$folder" "$@" \
        >"$out" 2>"$err" &
    local run=$!
    until [ "$(steps_of "$folder")" -ge "$step" ] || ! kill -0 $run 2>/dev/null; do sleep 0.005; done
    for r in $ranks; do victims+=($(process_of "$folder" "$r")); done
    [ ${#victims[@]} = 0 ] || kill -"$signal" "${victims[@]}"
    if [ -n "${later:-}" ]; then
        until [ "$(regroups "$folder")" -ge 1 ] || ! kill -0 $run 2>/dev/null; do sleep 0.005; done
        kill -"$signal" $(process_of "$folder" "$later")
    fi
    wait $run
    code=$?
}
# whole FOLDER: each step and epoch once, with the losses of the run that was not hurt
whole() {
    expect_code 0
    once "$1" 72 6
    expect "$1: went on" test "$(regroups "$1")" -ge 1
    losses_near "$1" calm 2e-6 "$1"
}

run "${common[@]}" --output-dir calm --nproc-per-node 2
expect_code 0

# ---- One machine ----
hurt_job KILL one 9 1 3 "${kept[@]}"
whole one
expect_text "$err" "elastic    the ranks that are left go on without the dead (by ULFM), at the step that was" \
    "rank 1 died (its process" "2 of 3 ranks go on" "going on with 2 ranks"
hurt_job KILL first 9 0 3 "${kept[@]}" --shard zero3
whole first
hurt_job KILL plain 20 2 3 --elastic --save-steps 4
whole plain
expect_text "$err" "continuing from plain/checkpoint-"
hurt_job STOP hung 9 1 3 "${kept[@]}" --progress-timeout 2
whole hung
expect_text "$err" "rank 1 died (hangs: no progress for 2"

# ---- Two machines of two ranks: a rank, a whole machine, the one of rank 0 ----
export EACH=2
for shard in none zero3; do
    hurt_job KILL "rank-$shard" 9 3 4 "${kept[@]}" --shard $shard
    whole "rank-$shard"
    expect_text "$err" "transport  shm, mpi between machines" "3 of 4 ranks go on" "from the state that ranks kept"
    hurt_job KILL "machine-$shard" 9 "2 3" 4 "${kept[@]}" --shard $shard
    whole "machine-$shard"
    hurt_job KILL "lead-$shard" 9 "0 1" 4 "${kept[@]}" --shard $shard
    whole "lead-$shard"
    expect_text "$err" "going on with 2 ranks at step" "from the state that ranks kept"
done
hurt_job KILL stages 9 1 4 "${kept[@]}" --pp-size 2 --num-microbatches 2
whole stages

# A tensor group loses a rank: its other one is a spare, which steps in when another dies.
later=0 hurt_job KILL spare 9 1 4 "${kept[@]}" --tp-size 2
whole spare
expect_text "$err" "2 of 4 ranks go on" "2 of 2 ranks go on"

# ---- Three machines of one rank ----
export EACH=1
hurt_job KILL three 9 1 3 "${kept[@]}" --shard zero2
whole three

# ---- What cannot go on says so: too few ranks, a rank that hangs alone on its machine, an MPI without ULFM ----
hurt_job KILL few 9 1 3 "${kept[@]}" --min-ranks 3
expect_code 137
expect_text "$err" "too few are left to go on"
expect_text few/error.json '"code": 137' '"rank": ' '"cause": '
unset EACH
last_command="mpirun without --with-ft"
timeout 30 "$bin/mpirun" --oversubscribe -np 2 "$trident" "${common[@]}" --output-dir off "${kept[@]}" >"$out" 2>"$err"
code=$?
expect_code 2
expect_text "$err" "its ULFM is off: \`mpirun --with-ft ulfm ...\` turns it on"

# ---- A host that dies with its daemon: mpirun ends with 0, and the run is not complete ----
id=$$
remove_hosts() {
    ip netns del "tri_a$id" 2>/dev/null
    ip netns del "tri_b$id" 2>/dev/null
    cleanup
}
trap remove_hosts EXIT
make_hosts() {
    ip netns add "tri_a$id" && ip netns add "tri_b$id" &&
        ip link add "ta$id" netns "tri_a$id" type veth peer name "tb$id" netns "tri_b$id" &&
        ip -n "tri_a$id" addr add 10.79.0.1/24 dev "ta$id" && ip -n "tri_b$id" addr add 10.79.0.2/24 dev "tb$id" &&
        ip -n "tri_a$id" link set lo up && ip -n "tri_b$id" link set lo up &&
        ip -n "tri_a$id" link set "ta$id" up && ip -n "tri_b$id" link set "tb$id" up && unshare -u true
}
if make_hosts 2>"$err"; then
    # What mpirun takes for ssh: the second host, whose processes end with the first of them. Their daemon's folder has
    # their process number in its name, which is the same each time: each start has its own place for it.
    cat >agent <<END
#!/bin/bash
shift
export TMPDIR=\$(mktemp -d -p "$work")
exec ip netns exec tri_b$id unshare -u -p --fork --kill-child --mount-proc sh -c \
    'hostname trident-b; echo >>"$work/agents"; exec bash -c "\$*"' sh "\$@"
END
    chmod +x agent
    two=(ip netns exec "tri_a$id" unshare -u sh -c 'hostname trident-a; exec "$@"' sh "$bin/mpirun" --with-ft ulfm
        --oversubscribe --bind-to none --prtemca plm_ssh_agent "$work/agent" --prtemca prte_if_include 10.79.0.0/24
        --mca btl tcp,self --mca btl_tcp_if_include 10.79.0.0/24 -H 10.79.0.1:1,10.79.0.2:1 -np 2)
    # The rank that is left goes on as an orphan and completes the run; or it is killed, too, and all are started again.
    for after in orphan none; do
        last_command="trident supervise -- mpirun on two hosts, of which one dies with its daemon ($after left)"
        rm -f agents
        "$trident" supervise --max-restarts 2 --restart-delay 0 -- "${two[@]}" "$trident" "${common[@]}" \
            --output-dir "$after" "${kept[@]}" --save-steps 4 --progress-timeout 1 >"$out" 2>"$err" &
        pid=$!
        until [ "$(steps_of $after)" -ge 9 ] || [ ! -d "/proc/$pid" ]; do sleep 0.01; done
        host=$(pgrep -f "^unshare -u -p --fork.*$work/agents") # outside of the host's namespace
        [ -z "$host" ] || kill -KILL $(pgrep -P $host)
        until grep -q 'waiting for ranks that live' "$err" || [ ! -d "/proc/$pid" ]; do sleep 0.01; done
        left=$(process_of "$after" 0)
        [ $after = orphan ] || [ -z "$left" ] || kill -KILL $left
        wait "$pid"
        code=$?
        expect_code 0
        expect_text "$err" "ended with exit code 0, but its run has not written its results in $after: waiting"
        [ $after = orphan ] || expect_text "$err" "again: start 2 of 3"
        [ $after = orphan ] || expect "the second host was entered again" test "$(wc -l <agents)" -ge 2
        once "$after" 72 6
        losses_near "$after" calm 2e-6 "a host that died with its daemon ($after left)"
    done
else
    echo "left out: a host that dies with its daemon (network namespaces are not allowed here)"
fi

finish
