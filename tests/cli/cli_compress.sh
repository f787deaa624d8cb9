# cli_compress.sh - transfers in fewer bits through the command: what plan and train say, proofs of printed programs,
# the same run under mpirun, refusals with the way out.
# timeout: 120
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
common=(--config config.json --data-path data --batch-size 8 --max-steps 4 --seed 1 --threads 1 --quiet)
coded=(--compress-gradients int8 --error-feedback yes --shard hybrid --shard-size 2 --compress-weights bf16)
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
digest() { "$trident" digest "$1" 2>/dev/null; }
plan() { run plan --config config.json "$@"; }

plan --world-size 4 "${coded[@]}"
expect_code 0
expect_text "$err" "gradients travel between replicas as int8: " "gathered weights travel between replicas as bf16: "
for rank in 0 1; do
    plan --world-size 2 --compress-gradients int4 --print-program $rank
    cp "$out" "$rank.txt"
done
run check 0.txt 1.txt
expect_code 0
expect_text "$out" "proven"
plan --world-size 2 --compress-gradients bf16 --print-program 1
cp "$out" other.txt
run check 0.txt other.txt
expect_code 65
expect_text "$err" "ranks 0 and 1 differ in transfer"
plan --world-size 2 --compress-gradients int8 --error-feedback --device cuda --hardware h200x8 --check # all kernels
expect_code 0
plan --world-size 2 --print-after compress
expect_code 0
expect_text "$out" "--compress-gradients or --compress-weights"

# ---- The same bits over shared memory and under mpirun ----
run train "${common[@]}" --output-dir whole --nproc-per-node 4 "${coded[@]}"
expect_code 0
if [ -e "$TRI_BUILD/libtrident_mpi.so" ] && mpirun --version 2>/dev/null | grep -q 'Open MPI' &&
    [ -z "${TRI_SANITIZED:-}" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    last_command="mpirun -np 4 trident train ${coded[*]}"
    timeout -k 2 60 mpirun --oversubscribe --bind-to none -np 4 "$trident" train "${common[@]}" --output-dir mpi \
        "${coded[@]}" >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect "the same under mpirun: $(digest whole) and $(digest mpi)" test -n "$(digest whole)" -a \
        "$(digest whole)" = "$(digest mpi)"
else
    echo "left out: mpirun (no Open MPI here, no plug-in, or a sanitizer)"
fi

# ---- What cannot be coded ----
rejects 2 plan --config config.json --world-size 512 --shard zero2 --compress-gradients int4
rejects 2 plan --config config.json --world-size 4 --nproc-per-node 4 --compress-gradients int8 --compress-scope node
rejects 2 plan --config config.json --world-size 4 --nproc-per-node 2 --shard zero1 \
    --compress-gradients int8 --compress-scope node
rejects 2 plan --config config.json --world-size 4 --compress-weights int8
rejects 2 plan --config config.json --world-size 4 --compress-gradients int8 --optimizer onebit-adam --max-steps 10
rejects 2 plan --config config.json --world-size 4 --optimizer onebit-adam --max-steps 10
rejects 2 plan --config config.json --world-size 4 --cp-size 2 --optimizer zero-one-adam --max-steps 30 \
    --local-step-scaler 4
plan --world-size 1 --compress-gradients int8
expect_code 0
expect_text "$err" "there is one replica, so nothing travels"

# ---- What 1-bit optimizers keep, and what a single copy drops ----
plan --world-size 2 --shard zero2 --optimizer onebit-adam --max-steps 5000
expect_code 0
expect_text "$err" "--shard zero2: this optimizer keeps each replica's gradients whole"
plan --world-size 2 --shard zero1 --optimizer zero-one-adam --max-steps 40
expect_code 0
expect_text "$err" "so none takes local steps: every step exchanges"
signs=(--config config.json --data-path data --global-batch-size 16 --seed 1 --threads 1 --quiet --output-dir signs
    --optimizer onebit-adam --full-steps 1 --warmup-steps 0)
run train "${signs[@]}" --max-steps 3 --nproc-per-node 2
expect_code 0
run train "${signs[@]}" --max-steps 4 --nproc-per-node 1
expect_code 0
expect_text "$err" "has 'error.*', what its run had not sent yet" "has 'error_sum.*', what its run had not sent yet"
coded_run=(--config config.json --data-path data --global-batch-size 16 --seed 1 --threads 1 --quiet --output-dir errors
    --warmup-steps 0 --nproc-per-node 2)
run train "${coded_run[@]}" --max-steps 2 --compress-gradients int4 --error-feedback
expect_code 0
run train "${coded_run[@]}" --max-steps 3 --optimizer onebit-adam --full-steps 2 \
    --allow-change optimizer,full_steps,compress_gradients,error_feedback
expect_code 0 # an error of gradients is not one of momentum
expect_text "$err" "has 'gradient_error.*', what its run had not sent yet" "has no 'error.*': it begins at 0"

# ---- Full steps that would have ended before the checkpoint ----
for full in 2 5; do
    run train "${signs[@]}" --max-steps 6 --full-steps $full --allow-change full_steps
    expect_code 2
    expect_text "$err" "its full steps have ended already" "take --full-steps 1"
done
run train "${coded_run[@]}" --output-dir full --max-steps 3
expect_code 0
run train "${coded_run[@]}" --output-dir full --max-steps 4 --optimizer onebit-adam --full-steps 2 \
    --allow-change optimizer,full_steps
expect_code 2
expect_text "$err" "all of its steps were full" "take --full-steps 3 or more"

# ---- A longer run whose kinds of steps were not planned ----
zero_one=(--config config.json --data-path data --global-batch-size 16 --seed 1 --threads 1 --quiet
    --output-dir longer --optimizer zero-one-adam --warmup-steps 0 --var-update-scaler 1 --local-step-scaler 5)
run train "${zero_one[@]}" --max-steps 5
expect_code 0
run train "${zero_one[@]}" --max-steps 10
expect_code 2
expect_text "$err" "froze the variance at step 3" "--var-freeze-step 3 --allow-change var_freeze_step"
run train "${zero_one[@]}" --max-steps 10 --var-freeze-step 3 --allow-change var_freeze_step
expect_code 0
finish
