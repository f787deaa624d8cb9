# cli_prediction.sh - whole runs forecast by `trident simulate`, and the prediction that every run writes beside what it
# measured.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
common=(--config config.json --data-path data --batch-size 4 --threads 1 --quiet)
number() { # KEY of the object "prediction" or "forecast" of a JSON file
    tr -d '\n ' <"$2" | sed -E "s/.*\"$3\":\{([^}]*)\}.*/\1/" | tr , '\n' | sed -n "s/^\"$1\"://p"
}

# A forecast: an epoch is its steps, a run is start-up, epochs and validations; cost follows the price.
run simulate "${common[@]}" --world-size 2 --hardware cpu --epochs 3 --price-per-hour 36 --json
expect_code 0
step=$(number step_seconds "$out" forecast) steps=$(number steps "$out" forecast)
each=$(number epoch_steps "$out" forecast) epoch=$(number epoch_seconds "$out" forecast)
whole=$(number run_seconds "$out" forecast) cost=$(number cost "$out" forecast)
expect "3 epochs: $steps steps of $each" test "$steps" = $((3 * each))
close() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-4 * a && d > -1e-4 * a && a > 0) }'; }
expect "an epoch is its steps" close "$epoch" "$(awk "BEGIN { print $step * $each }")"
expect "a run is longer than its steps" is "$whole" '>' "$(awk "BEGIN { print $step * $steps }")"
expect "two ranks at 36 an hour" close "$cost" "$(awk "BEGIN { print $whole * 0.02 }")"
run simulate "${common[@]}" --world-size 2 --hardware cpu --max-steps 2 --json
expect "--max-steps limits the run" test "$(number steps "$out" forecast)" = 2
run simulate "${common[@]}" --world-size 2 --hardware cpu
expect_text "$out" "a run of" "an epoch" "a validation" "checkpoints left out" "tokens/s"
run simulate --config config.json --quiet --world-size 2 --hardware cpu
expect "without data or --max-steps there is no run" sh -c "! grep -q 'a run of' '$out'"
rejects 2 simulate "${common[@]}" --world-size 2 --hardware cpu --price-per-hour=-1

# Microbatches of real batches are smaller than the largest.
real=$(number step_seconds <("$trident" simulate "${common[@]}" --world-size 1 --hardware cpu --json) forecast)
most=$(number step_seconds <("$trident" simulate --config config.json --batch-size 4 --threads 1 --quiet \
    --world-size 1 --hardware cpu --json) forecast)
expect "real batches take less than full ones: $real, $most" is "$most" '>' "$real"

# Runs: one rank, several, and one that continues.
for ranks in 1 2; do
    run train "${common[@]}" --output-dir "run$ranks" --max-steps 6 --nproc-per-node "$ranks"
    expect_code 0
    file=run$ranks/summary.json
    expect "hardware is named, $ranks" test "$(number hardware "$file" prediction)" = '"cpu"'
    expect "assumed figures are called that" test "$(number origin "$file" prediction)" = '"assumed"'
    predicted=$(number step_seconds "$file" prediction) measured=$(number measured_step_seconds "$file" prediction)
    expect "the error is predicted over measured" sh -c "awk 'BEGIN { e = $predicted / $measured - 1 - \
        $(number error "$file" prediction); exit !(e < 1e-6 && e > -1e-6) }'"
    expect "it was made in time" is 0.5 '>' "$(number made_in_seconds "$file" prediction)"
    expect "the run is measured too" is "$(number measured_seconds "$file" prediction)" '>' "$measured"
    expect "what is assumed is not announced" sh -c "! grep -q predicted '$err'"
done
mkdir -p "$XDG_CONFIG_HOME/trident"
echo '{"f32_flops": -1}' >"$XDG_CONFIG_HOME/trident/hardware-cpu.json"
run train "${common[@]}" --output-dir damaged --max-steps 1
expect_code 0
expect_text "$err" "the run is not predicted: " "hardware-cpu.json: f32_flops has to be"
run doctor
expect_text "$out" "f32_flops has to be"
rm -r "$XDG_CONFIG_HOME/trident"
run train "${common[@]}" --output-dir run1 --max-steps 9
expect_code 0
expect "a run that goes on predicts the rest" is \
    "$(awk "BEGIN { print 6 * $(number step_seconds run1/summary.json prediction) }")" '>' \
    "$(number run_seconds run1/summary.json prediction)"
finish
