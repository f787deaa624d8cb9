# cli_cuda_elastic.sh - --elastic --replicate-state on a GPU that ranks share: state is copied to the host while the
# next step computes. A rank dies, and the other goes on with the losses of the run that was not hurt; all die, and
# those that are started again end with the weights of that run, bit by bit. Skipped, with the reason, without a GPU or
# NCCL.
# timeout: 240
. "$(dirname "$0")/../lib/cli_lib.sh"
"$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }
if "$trident" doctor | grep -q 'no NCCL'; then echo "NCCL does not load: ranks cannot share the GPU"; exit 77; fi
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
common=(train --config config.json --data-path data --global-batch-size 8 --epochs 2 --threads 1 --no-report
    --device cuda --nproc-per-node 2)
kept=(--elastic --replicate-state)

digest_of() { "$trident" digest "$1" 2>&1 || echo "none: $1"; }

# deaths I HOW: of one rank after step 4 I, then of both after step 6 I.
deaths() {
    local i=$1 how=$2
    # shellcheck disable=SC2086
    run "${common[@]}" --output-dir "calm$i" $how
    expect_code 0
    # shellcheck disable=SC2086
    hurt "hurt$i" $((4 * i)) "$((1 + i % 2))" "${kept[@]}" $how
    expect_code 0
    once "hurt$i" 24 2
    losses_near "hurt$i" "calm$i" "$([ $i = 2 ] && echo 3e-2 || echo 1e-5)" "$how"
    expect "$how: went on once" test "$(regroups "hurt$i")" = 1
    expect_text "$err" "died (killed by SIGKILL)" "from the state that ranks kept"
    # shellcheck disable=SC2086
    hurt "all$i" $((6 * i)) "1 2" "${kept[@]}" --max-restarts 4 $how
    expect_code 0
    once "all$i" 24 2
    expect_text "$err" "going on with 2 ranks" "from the state that ranks kept"
    expect "$how: weights and moments as without the deaths" test "$(digest_of "calm$i")" = "$(digest_of "all$i")"
}
beside deaths 1 "--shard none"
beside deaths 2 "--shard zero3 --precision bf16"
beside deaths 3 "--shard zero1 --offload optimizer --save-steps 7"
finish
