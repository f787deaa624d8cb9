# eval and predict on meshes: the bits of one rank, whatever the replicas, stages, microbatches, shards and batches;
# what cannot be is refused before anything is computed.
# timeout: 240
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
run train --config config.json --data-path data --output-dir run --threads 1 --batch-size 8 --max-steps 8 --quiet \
    --nproc-per-node 4 --pp-size 2 --tp-size 2 --num-microbatches 2
expect_code 0

common=(--checkpoint run --data-path data/valid.csv --threads 1)
run predict "${common[@]}" -o one.csv --force
expect_code 0
run eval "${common[@]}" --by size,label --json
expect_code 0
figures() { sed 's/"seconds":[^,}]*//' "$1"; } # of a file, without what a clock says
figures "$out" >one.json
expect "there are predictions" test "$(wc -l <one.csv)" = 33

# ---- The same bits ----
same() { # OPTIONS...: predictions and figures are those of one rank, and only the first rank writes
    run predict "${common[@]}" "$@" -o many.csv --force
    expect_code 0
    expect "$*: the predictions are those of one rank" cmp one.csv many.csv
    expect "$*: said once" test "$(grep -c 'rows in many.csv' "$err")" = 1
    rm -f many.csv
}
same --batch-size 1
same --batch-size 7
same --num-microbatches 3
same --nproc-per-node 2
same --nproc-per-node 4 --batch-size 3
same --nproc-per-node 2 --shard zero3
same --nproc-per-node 4 --shard hybrid --shard-size 2 --batch-size 5
same --nproc-per-node 2 --pp-size 2
same --nproc-per-node 2 --pp-size 2 --num-microbatches 1 --batch-size 5
same --nproc-per-node 4 --pp-size 4 --batch-size 9 --num-microbatches 9
same --nproc-per-node 2 --pp-size 2 --pipeline-shape branch
same --nproc-per-node 2 --pp-size 2 --schedule interleaved --virtual-stages 2
same --nproc-per-node 4 --pp-size 2 --dp-size 2 --batch-size 6
same --nproc-per-node 4 --pp-size 2 --shard zero3 --num-microbatches 3 --mesh-order dp,tp,pp
same --nproc-per-node 2 --offload params
same --nproc-per-node 2 --shard zero3 --offload params,activations --cache-dir cache
same --nproc-per-node 4 --batch-size 32 # 32 rows: replicas whose last batch is empty

for precision in bf16 fp16 int8; do
    run predict "${common[@]}" --precision $precision -o few.csv --force
    expect_code 0
    for mesh in "--batch-size 5" "--nproc-per-node 4 --pp-size 2 --shard zero3 --num-microbatches 3"; do
        run predict "${common[@]}" --precision $precision $mesh -o many.csv --force
        expect_code 0
        expect "$precision, $mesh: the predictions are those of one rank" cmp few.csv many.csv
    done
    expect "$precision rounds" test "$(cmp one.csv few.csv | wc -l)" = 1
done

run eval "${common[@]}" --nproc-per-node 4 --pp-size 2 --by size,label --json
expect_code 0
expect "figures of four ranks are those of one" test "$(figures "$out")" = "$(cat one.json)"
expect_text "$err" "launcher   trident: 4 ranks" "mesh       pp=2 tp=1 dp=2"
expect "the checkpoint is said once" test "$(grep -c 'run/checkpoint-8' "$err")" = 1

# ---- Shared layers: to rounding ----
near() { # OPTIONS...
    run predict "${common[@]}" "$@" -o many.csv --force
    expect_code 0
    paste -d, one.csv many.csv | awk -F, 'NR > 1 { n = NF / 2
        for (i = 2; i <= n; i++) { d = $i - $(i + n); if (d < 0) d = -d; if (!(d <= 1e-5)) bad = 1 } }
        END { exit bad || NR < 33 }'
    expect "$*: probabilities within 1e-5" test $? = 0
}
near --nproc-per-node 2 --tp-size 2
near --nproc-per-node 2 --tp-size 2 --sequence-parallel no
near --nproc-per-node 8 --pp-size 2 --tp-size 2 --shard zero3 --num-microbatches 3

# ---- Under mpirun ----
if [ -e "$TRI_BUILD/libtrident_mpi.so" ] && [ -z "${TRI_SANITIZED:-}" ] &&
    mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mpirun --oversubscribe --bind-to none -np 2 "$trident" predict "${common[@]}" --pp-size 2 -o many.csv --force \
        2>"$err"
    code=$?
    expect_code 0
    expect "mpirun: the predictions are those of one rank" cmp one.csv many.csv
fi

# ---- Refused ----
rejects 2 eval "${common[@]}" --nproc-per-node 2 --pp-size 3 --dp-size 1
rejects 2 eval "${common[@]}" --offload optimizer
rejects 2 predict "${common[@]}" --num-microbatches 9 --batch-size 4
rejects 2 eval "${common[@]}" --nproc-per-node 3 --tp-size 3
refuses 71 "2 ranks need" "together, --memory-limit allows 64.0 KiB" -- eval "${common[@]}" --nproc-per-node 2 \
    --memory-limit 64K
refuses 71 "2 ranks need" "--memory-limit allows 750.0 KiB: --shard zero3" "would need" -- eval "${common[@]}" \
    --nproc-per-node 2 --batch-size 1 --memory-limit 750K
refuses 71 "the plan needs" "--memory-limit allows 64.0 KiB" -- predict "${common[@]}" --memory-limit 64K
rejects 66 predict --checkpoint nowhere --data-path data --nproc-per-node 2
rejects 65 predict "${common[@]}" --keep nothing --nproc-per-node 2

finish
