# cli_pipeline.sh - pipelines and tensor parallelism through the command: users' launch lines, with small versions of
# the project's configurations; the losses of one rank, and the same checkpoint for every layout; reports on stages;
# messages for unsupported combinations. Four steps; SOAK_STEPS=100: 100.
# timeout: 300
project=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../lib/cli_lib.sh"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

# The columns of the configurations: make_deliveries FILE ROWS FIRST.
make_deliveries() {
    awk -v rows="$2" -v first="$3" 'BEGIN {
        print "label,dialogue,shiptrack,feature_1,feature_2,feature_3"
        for (i = first; i < first + rows; i++) {
            y = (i * 7 + int(i / 3)) % 2; text = "the box was " (y ? "bad" : "good")
            for (k = 0; k < i % 9; k++) text = text (k % 2 ? " and late" : " not fine")
            printf "%d,%s,%s a box %s,%d,%.2f,%d\n", y, text, i % 2 ? "early" : "late", y ? "lost" : "found", i % 11,
                (i % 17) / 4, i % 3
        }
    }' >"$1"
}
# A RoBERTa vocabulary of single letters: make_roberta FOLDER.
make_roberta() {
    mkdir -p "$1"
    awk 'BEGIN {
        n = split("<s> <pad> </s> <unk> Ġ a b c d e f g h i j k l m n o p q r s t u v w x y z <mask>", piece, " ")
        for (i = 1; i <= n; i++) printf "%s\"%s\": %d", (i > 1 ? ", " : "{"), piece[i], i - 1
        print "}"
    }' >"$1/vocab.json"
    echo '#version: 0.2' >"$1/merges.txt"
}
mkdir deliveries models
make_deliveries deliveries/train.csv 512 0
make_deliveries deliveries/valid.csv 40 512
make_model models/bert-base-cased
make_roberta models/roberta-base

steps=${SOAK_STEPS:-4}
few=(--models-dir models --threads 1 --max-steps "$steps" --epochs 100 --save-every 100 --max_sen_len 48
    --warmup_steps 1)
# trains FOLDER ARGS...: a run that ends well.
trains() {
    local folder=$1
    shift
    run train "$@" "${few[@]}" --output-dir "$folder"
    expect_code 0
}
losses() { sed -n 's/.*"event":"train".*"loss":\([^,]*\),.*/\1/p' "$1/metrics.jsonl"; }
# Losses of two runs, each within LIMIT * max(loss, 0.1): close LIMIT FOLDER OTHER.
close() {
    expect "$2: as many losses as $3" test -n "$(losses "$2")" -a "$(losses "$2" | wc -l)" = "$(losses "$3" | wc -l)"
    expect "$2 has the losses of $3: $(losses "$2" | tr '\n' ' ')for $(losses "$3" | tr '\n' ' ')" awk -v limit="$1" '
        NR == FNR { want[FNR] = $1; next }
        { off = $1 - want[FNR]; if (off < 0) off = -off
          if (off > limit * (want[FNR] > 0.1 ? want[FNR] : 0.1)) bad = 1 }
        END { exit bad }' <(losses "$3") <(losses "$2")
}
near() { is "$(awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; print d < 0 ? -d : d }')" '<' "$3"; } # A B LIMIT
digest() { "$trident" digest "$1" 2>/dev/null; }

# ---- The launch lines that users have ----
trains pp_dp --tiny --nproc_per_node=8 --config "$project/configs/hybrid_pp_dp_8gpu.json" --data_path deliveries \
    --pp_size 2 --batch_size 32 --num_microbatches 4
expect_text "$err" "--tiny: the primary encoder has 2 layers, 64 wide" \
    "pipeline of 2 ranks: branch shape (the faster one), schedule 1f1b, 4 microbatches" \
    "stage 0 on ranks 0-3: primary.embeddings primary.layer.0-1 primary.pooling" "busy ms" "bubble " \
    "(predicted with these times: "
expect_text pp_dp/summary.json '"pipeline"' '"busy_seconds"' '"waiting_seconds"' '"communication_seconds"' \
    '"predicted_bubble"'
expect "one measured and one predicted bubble" test \
    "$(grep -o '"[a-z_]*bubble"' pp_dp/summary.json | sort | paste -sd' ')" = '"bubble" "predicted_bubble"'
expect_text pp_dp/stage_profile.json '"primary.layer.1"' '"fusion"' '"weight"'
trains alone --tiny --config "$project/configs/hybrid_pp_dp_8gpu.json" --data_path deliveries --batch_size 128
close 2e-6 pp_dp alone

trains fsdp --tiny --nproc_per_node=8 --config "$project/configs/hybrid_fsdp_pp_8gpu.json" --data_path deliveries \
    --pp_size 2 --batch_size 16
expect_text "$err" \
    "primary_tokenizer: no folder of a model named bert-large-cased; its vocabulary is that of bert-base-cased" \
    "layout     shard zero3, schedule 1f1b (branch), 4 microbatches, recompute none, offload none" \
    "parameters " "memory     " "schedule 1f1b, 4 microbatches"
trains alone_fsdp --tiny --config "$project/configs/hybrid_fsdp_pp_8gpu.json" --data_path deliveries --batch_size 64
close 2e-6 fsdp alone_fsdp

# Two runs in one folder: refused by the launcher, before any rank starts.
rejects 2 train --tiny --nproc_per_node=8 --config "$project/configs/hybrid_fsdp_pp_8gpu.json" --data_path deliveries \
    --pp_size 2 --batch_size 16 --output-dir pp_dp
expect "no rank was started" test -z "$(grep -E '^launcher|rank 0' "$err")"

mesh=(--pp_size 4 --tp_size 2 --batch_size 8)
trains all_axes --tiny --nproc_per_node=16 --config "$project/configs/hybrid_3d_16gpu.json" --data_path deliveries \
    "${mesh[@]}"
trains alone_3d --tiny --config "$project/configs/hybrid_3d_16gpu.json" --data_path deliveries --batch_size 16
close 1e-5 all_axes alone_3d

# ---- A checkpoint of a pipeline is like any other ----
run eval --checkpoint pp_dp --data-path deliveries --json --calibration none
expect_code 0
expect "40 rows" test "$(json_number rows "$out")" = 40
loss=$(json_number loss "$out")
run eval --checkpoint alone --data-path deliveries --json --calibration none
expect "its evaluation is one rank's: $loss, $(json_number loss "$out")" near "$loss" "$(json_number loss "$out")" 1e-5
valid=$(sed -n 's/.*"valid_loss":\([^,]*\),.*/\1/p' pp_dp/metrics.jsonl | tail -n 1)
expect "the run's own validation says the same: $valid" near "$valid" "$loss" 1e-6

run eval --checkpoint all_axes --data-path deliveries --json
loss=$(json_number loss "$out")
run eval --checkpoint alone_3d --data-path deliveries --json
expect "16 ranks' checkpoint evaluates as one rank's: $loss, $(json_number loss "$out")" near "$loss" \
    "$(json_number loss "$out")" 1e-5

# ---- Schedules and shapes ----
one=(--tiny --config "$project/configs/hybrid_pp_dp_8gpu.json" --data_path deliveries --nproc_per_node=2 --pp_size 2
    --batch_size 16)
trains chain "${one[@]}" --pipeline-shape chain
for schedule in gpipe zb-h1; do
    trains "$schedule" "${one[@]}" --pipeline-shape chain --schedule $schedule
    expect "$schedule is 1f1b to the bit" test -n "$(digest chain)" -a "$(digest "$schedule")" = "$(digest chain)"
done
trains again "${one[@]}" --pipeline-shape chain --save-steps 3 --keep 100
ls -d again/checkpoint-* | grep -v 'checkpoint-3$' | xargs rm -rf again/best_checkpoint.json
trains again "${one[@]}" --pipeline-shape chain --save-steps 3 --keep 100 --schedule zb-h1
expect_text "$err" "continuing from again/checkpoint-3 at step 3"
expect "a run that goes on from step 3 with another schedule" test "$(digest again)" = "$(digest chain)"
trains branch "${one[@]}" --pipeline-shape branch
close 2e-6 branch chain
for schedule in interleaved zbv; do
    trains "$schedule" "${one[@]}" --schedule $schedule
    expect_text "$err" "stage 3 on rank "
    close 2e-6 "$schedule" chain
done

# ---- Stages as they are asked for, and as they were measured ----
trains asked "${one[@]}" --stages 'primary,secondary tabular fusion' --num-microbatches 2
expect_text "$err" "stage 1 on rank 1: secondary.embeddings secondary.layer.0-1 secondary.pooling tabular fusion" \
    "2 microbatches in a pipeline of 2: predicted bubble" "with --num-microbatches 4" "with 8"
trains measured "${one[@]}" --stage-profile asked/stage_profile.json
run plan "${one[@]}" --models-dir models --stage-profile asked/stage_profile.json --json
expect_code 0
for _ in 1 2 3; do # on a busy machine a rank may lose its core while it counts as busy
    rm -rf uneven
    trains uneven "${one[@]}" --stages 'primary.embeddings,primary.layer primary.pooling secondary tabular fusion'
    grep -q better_stages uneven/summary.json && break
done
expect_text "$err" "stage 1 is busy" "--stages \""
expect_text uneven/summary.json '"better_stages"'

# ---- What does not go, in words ----
bad=(train "${one[@]}" "${few[@]}" --output-dir bad --quiet)
rejects 2 "${bad[@]}" --schedule zbv --pipeline-shape branch
rejects 2 "${bad[@]}" --schedule interleaved --pipeline-shape branch
rejects 2 "${bad[@]}" --stages 'primary,secondary tabular'
rejects 2 "${bad[@]}" --stages 'primary secondary tabular fusion'
rejects 2 "${bad[@]}" --num-microbatches 20
rejects 2 "${bad[@]}" --nproc_per_node=6 --tp_size 3
rejects 66 "${bad[@]}" --stage-profile no_such.json
rejects 65 "${bad[@]}" --stage-profile pp_dp/summary.json
mv models elsewhere # ./models is searched too
rejects 66 "${bad[@]}" --models-dir deliveries
mv elsewhere models

# ---- The same under mpirun ----
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if [ -e "$TRI_BUILD/libtrident_mpi.so" ] && mpirun --version 2>/dev/null | grep -q 'Open MPI' &&
    [ -z "${TRI_SANITIZED:-}" ]; then
    under_mpi() { # FOLDER RANKS OPTIONS...
        local folder=$1 ranks=$2
        shift 2
        last_command="mpirun -np $ranks trident train $*"
        timeout -k 2 120 mpirun --oversubscribe --bind-to none -np "$ranks" "$trident" train "$@" "${few[@]}" \
            --output-dir "$folder" >"$out" 2>"$err"
        code=$?
        expect_code 0
    }
    config=(--tiny --config "$project/configs/hybrid_pp_dp_8gpu.json" --data_path deliveries --pp_size 2)
    under_mpi mpi 4 "${config[@]}" --tp_size 2 --batch_size 16
    trains shm --nproc-per-node 4 "${config[@]}" --tp_size 2 --batch_size 16
    expect "four ranks of mpirun on two axes are those of shared memory" test -n "$(digest shm)" -a "$(digest mpi)" = \
        "$(digest shm)"
    under_mpi mpi_dp 4 "${config[@]}" --batch_size 8 --shard zero3 --schedule zb-h1
    close 2e-6 mpi_dp chain
else
    echo "left out: mpirun (no Open MPI here, no plug-in, or a sanitizer)"
fi
finish
