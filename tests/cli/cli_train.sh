# A tiny model end to end: train, its run folder, eval, predict, digest; the same run for any thread count.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all

begin=$(date +%s%N)
checked run train --config config.json --data-path data --output-dir run --epochs 8 --batch-size 16 --lr 3e-3 --seed 1 \
    --threads 2
took=$((($(date +%s%N) - begin) / 1000000))
expect_code 0
echo "48 steps in $took ms"
expect "training prints no result on stdout but its end" test "$(wc -l <"$out")" -le 3
for file in metrics.jsonl summary.json; do expect "run/$file" test -s "run/$file"; done
expect "a checkpoint" test -s run/checkpoint-48/manifest.json
expect "tfevents" test -n "$(ls run/*tfevents* 2>/dev/null)"
expect "no error.json after success" test ! -e run/error.json
expect_text "$err" epoch valid
expect "no escape codes in a file" test -z "$(grep -l "$(printf '\033')" "$err")"

# metrics.jsonl: one train event a step with these fields, one epoch event an epoch.
grep '"event": *"train"' run/metrics.jsonl >train_events
grep '"event": *"epoch"' run/metrics.jsonl >epoch_events
expect "48 train events" test "$(wc -l <train_events)" = 48
expect "8 epoch events" test "$(wc -l <epoch_events)" = 8
for key in step epoch loss learning_rate grad_norm samples_per_second tokens_per_second step_ms; do
    expect "$key in each train event" test "$(grep -c "\"$key\": *[0-9]" train_events)" = 48
done
head -n 1 train_events >first_event
tail -n 1 train_events >last_event
expect "the first step is 1" is "$(json_number step first_event)" == 1
expect "the loss falls" is "$(json_number loss last_event)" '<' "$(json_number loss first_event)"

# eval: exactly the promised keys.
checked run eval --checkpoint run --data-path data/test.csv --json
expect_code 0
expect "one line of JSON" test "$(wc -l <"$out")" = 1
cp "$out" scores.json
keys="loss accuracy f1 pr_auc average_precision roc_auc log_loss positive_label classes confusion rows ece brier"
keys+=" reliability rows_trained_on unseen decision intervals"
expect "these keys and no further one" test \
    "$(sed ':a; s/{[^{}]*}/0/g; ta' <<<"$(sed 's/^{//; s/}$//' scores.json)" | grep -o '"[a-z_0-9]*":' |
    tr -d '":\n')" = "${keys// /}"
expect "f1 is an object with macro" grep -q '"f1": *{[^}]*"macro"' scores.json
expect "40 rows" is "$(json_number rows scores.json)" == 40
expect "it has learned (accuracy $(json_number accuracy scores.json))" is "$(json_number accuracy scores.json)" '>=' 0.8
run eval --checkpoint run --data-path data
expect_code 0
expect_text "$out" accuracy "PR AUC" recall
run eval --checkpoint run/checkpoint-48 --data-path data/test.csv --json
expect_code 0

# The host's side of a server, on a device that computes nothing; predict refuses such a device.
run bench serve --checkpoint run --data-path data/test.csv --json
expect_code 0
for key in open_ms open_cpu_ms encode_us request_us tokens_per_row; do
    expect "$key is a number above 0" is "$(json_number $key "$out")" '>' 0
done
run predict --checkpoint run --data-path data/test.csv --device null
expect_code 2
expect_text "$err" "computes nothing"
run bench serve --checkpoint run
expect_code 2
expect_text "$err" "needs rows: give --data-path"

# predict: a header, one line a row, probabilities that sum to 1, the same on stdout and in a file.
checked run predict --checkpoint run --data-path data/test.csv -o out.csv
expect_code 0
expect "stdout stays empty with -o" test ! -s "$out"
expect "header" test "$(head -n 1 out.csv)" = label,prob_0,prob_1
expect "40 rows and a header" test "$(wc -l <out.csv)" = 41
expect "probabilities sum to 1 and the label is the larger" awk -F, 'NR > 1 {
    if ($2 + $3 < 0.99999 || $2 + $3 > 1.00001 || $1 != ($3 > $2)) exit 1 }' out.csv
run predict --checkpoint run --data-path data/test.csv
expect "stdout equals the file" cmp -s "$out" out.csv
sed 's/,[01]$//; s/,label$//' data/test.csv >unlabelled.csv
run predict --checkpoint run --data-path unlabelled.csv
expect_code 0
expect "labels are not needed" cmp -s "$out" out.csv
paste -d, <(cut -d, -f1 out.csv) <(sed 's/.*,//' data/test.csv) |
    awk -F, 'NR > 1 { n++; good += $1 == $2 } END { printf "%.9g\n", good / n }' >accuracy
expect "predict agrees with eval ($(cat accuracy))" is "$(cat accuracy)" == "$(json_number accuracy scores.json)"
run predict --checkpoint run --data-path data/test.csv --json
expect "40 JSON lines" test "$(grep -c '^{"label":.*"probabilities":' "$out")" = 40

# digest: 32 digits alone; the same for the same run and for any number of threads, another for another seed.
run digest run
expect_code 0
expect "32 hex digits alone" grep -Exq '[0-9a-f]{32}' "$out"
digest=$(cat "$out")
for threads in 1 2 3; do
    run train --config config.json --data-path data --output-dir "threads$threads" --epochs 8 --batch-size 16 \
        --lr 3e-3 \
        --seed 1 --threads $threads --quiet
    expect_code 0
    run digest "threads$threads"
    expect "$threads threads give the same weights" test "$(cat "$out")" = "$digest"
done
run train --config config.json --data-path data --output-dir other --epochs 8 --batch-size 16 --lr 3e-3 --seed 2 --quiet
run digest other/checkpoint-48
expect "another seed gives other weights" test "$(cat "$out")" != "$digest"

# Each branch can be left out.
for keys in '"tab_field_list": []' '"secondary_text_name": null|"secondary_encoder": null'; do
    IFS='|' read -ra keys <<<"$keys"
    make_config less.json "${keys[@]}"
    run train --config less.json --data-path data --output-dir "less$((n = ${n:-0} + 1))" --max-steps 3 --quiet
    expect_code 0
done

# A failed run says so in its folder.
make_config huge.json '"lr": 1e30' '"warmup_steps": 0'
checked run train --config huge.json --data-path data --output-dir huge --epochs 30 --quiet
expect_code 79
expect_text "$err" step
expect "error.json" grep -q '"code": *79' huge/error.json

# The profile: a trace, and a table of what costs most.
run train --config config.json --data-path data --output-dir profiled --max-steps 6 --profile wait=1,warmup=1,active=3
expect_code 0
expect "a trace file" test -n "$(ls profiled/*trace* 2>/dev/null)"

# plan: numbers, the program, the check.
run plan --config config.json
expect_code 0
expect_text "$out" instructions peak
checked run plan --config config.json --print-program 0
expect_code 0
expect_text "$out" attention adamw
run plan --config config.json --check
expect_code 0
expect_text "$out" check
run plan --config config.json --json
expect "one object" grep -q '^{.*}$' "$out"

# Start to first step within a second: best of three, and the lesser of elapsed and processor time, as the machine may
# be busy.
if [ -z "${TRI_SANITIZED:-}" ]; then
    best=100000
    for i in 1 2 3; do
        TIMEFORMAT='%3R %3U %3S'
        { time run train --config config.json --data-path data --output-dir "start$i" --max-steps 1 --save-every 0 \
            --quiet; } 2>timing
        took=$(awk '{ used = $2 + $3; print int(1000 * (used < $1 ? used : $1)) }' timing)
        expect_code 0
        [ "$took" -lt "$best" ] && best=$took
    done
    echo "start, one step, validation, end: best of three $best ms"
    expect "first step within 1 s ($best ms)" test "$best" -lt 1000
fi
finish
