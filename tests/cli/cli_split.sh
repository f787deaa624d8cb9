# Parts of one table, cross-validation, ensembles.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
make_table all.csv 150 0
train() {
    echo train --config config.json --data-path "$1" --output-dir "$2" --max-steps 8 --epochs 2 --batch-size 16 \
        --no-color "${@:3}"
}
digest_of() { "$trident" digest "$1"; }
same() { expect "$3" test -n "$1" -a "$1" = "$2"; }
# The rows of a part, as a table: rows PART RUN.
rows() {
    "$trident" predict --checkpoint "$2" --data-path all.csv --part "$1" --quiet |
        awk -F, 'NR == FNR { if (FNR > 1) at[$1 + 1]; next } FNR == 1 || FNR in at' - all.csv
}

# A split trains, validates and tests as three tables do that hold its rows; the table is tokenised once.
run $(train all.csv run --split 0.7,0.2,0.1 --stratify)
expect_code 0
expect_text "$err" "all.csv: 150 rows" "split: 105 rows for training, 30 for validation, 15 for test"
expect_text "$out" "trident eval --checkpoint run --data-path all.csv --part test"
expect "one token store" test "$(ls run/cache | wc -l)" = 1
mkdir -p three
rows train run >three/train.csv && rows valid run >three/valid.csv && rows test run >three/test.csv
expect "rows of the parts" test "$(cat three/*.csv | sort -u | wc -l)" = "$(sort -u all.csv | wc -l)"
run $(train three three-run)
expect_code 0
same "$(digest_of run)" "$(digest_of three-run)" "a split is three tables"
run eval --checkpoint run --data-path all.csv --part test --json --quiet
expect_code 0
cp "$out" by-part
expect "no row of the test was trained on" is "$(json_number rows "$out")" == 15
run eval --checkpoint three-run --data-path three --json --quiet
same "$(sed 's/,"rows_trained_on.*//' by-part)" "$(sed 's/,"rows_trained_on.*//' "$out")" "and is evaluated alike"
expect "rows of validation are numbered in the table" test "$(sed -n 2p run/validation-last.csv | cut -d, -f 1)" = \
    "$(rows valid run | sed -n 2p | grep -nxF -f - all.csv | head -n 1 | awk -F: '{ print $1 - 1 }')"

# Neither ranks nor seeds change which rows are where; --split-seed does.
run $(train all.csv ranks --split 0.7,0.2,0.1 --stratify --nproc-per-node 2 --seed 7 --quiet)
expect_code 0
same "$(rows test run)" "$(rows test ranks)" "ranks and seeds do not change the parts"
run $(train all.csv reseeded --split 0.7,0.2,0.1 --stratify --split-seed 7 --quiet)
expect "another seed, other rows" test "$(rows test run)" != "$(rows test reseeded)"

# Resuming: a changed row is noticed, in any part; so is another split.
sed '2s/good/fine/; 2s/bad/fine/' all.csv >changed.csv
rejects 2 $(train changed.csv run --split 0.7,0.2,0.1 --stratify --epochs 3 --quiet)
rejects 2 $(train all.csv run --split 0.7,0.2,0.1 --stratify --split-seed 5 --epochs 3 --quiet)
rejects 65 eval --checkpoint run --data-path changed.csv --part test --quiet

# Groups: blanks around a value do not count; a row without one is a group of its own.
awk -v OFS=, 'NR == 1 { print $0, "who"; next }
    { k = int(NR / 2); print $0, (NR > 101 ? "" : NR % 2 ? k : " " k " ") }' all.csv >groups.csv
run $(train groups.csv grouped --split 0.5,0.3,0.2 --group-by who --quiet)
expect_code 0
run predict --checkpoint grouped --data-path groups.csv --part valid --quiet
expect "a share of the rows without a value" is "$(awk -F, '$1 > 100' "$out" | wc -l)" "<" 35
expect "pairs stay together" awk -F, '$1 <= 100 && NR > 1 { n[int(($1 + 1) / 2)]++ } END { for (k in n) { all++
    if (n[k] == 2) two++ } exit !(two > 3 && two == all) }' "$out"

# What cannot be done is said.
awk -F, 'NR == 1 || $NF == 0 || n++ < 2' all.csv >rare.csv
rejects 65 $(train rare.csv x --split 0.7,0.2,0.1 --stratify --quiet)
rejects 2 $(train all.csv x --split 0.8,0.2,0.1)
rejects 2 $(train all.csv x --split 0.8)
rejects 2 $(train all.csv x --group-by size)
rejects 2 $(train data x --split 0.8,0.2 --quiet)
rejects 2 eval --checkpoint three-run --data-path all.csv --part test --quiet
rejects 2 $(train all.csv x --folds 3 --fold 4)

# Folds: each row is in one; an interrupted command goes on; finished folds stay as they are.
run $(train all.csv folds --folds 3 --stratify --group-by size --quiet --nproc-per-node 2)
expect_code 0
expect_text "$out" "valid_loss" "mean" "spread" "folds/summary.json"
expect "every row is in one fold" test "$(cut -d, -f 1 folds/fold-*/validation-last.csv | grep -c '[0-9]')" = 150
expect "no row is in two" test -z "$(cut -d, -f 1 folds/fold-*/validation-last.csv | grep '[0-9]' | sort | uniq -d)"
before=$(digest_of folds/fold-1)
rm -r folds/fold-2/summary.json folds/fold-2/checkpoint-* folds/fold-3
run $(train all.csv folds --folds 3 --stratify --group-by size --json --nproc-per-node 2)
expect_code 0
expect_text "$err" "fold 2 of 3" "all 6 steps were taken before"
expect_text "$out" '"folds":[{"fold":1,"folder":"fold-1","figures":{"valid_loss":' '"mean":{"valid_loss":' '"spread":{'
same "$before" "$(digest_of folds/fold-1)" "a finished fold is not trained again"
accuracy() { grep -o '"accuracy":[0-9.]*' "$@" | head -n 1; }
same "$("$trident" eval --checkpoint folds/fold-3 --data-path all.csv --part valid --json --quiet | accuracy)" \
    "$(sed 's/.*"fold":3//' "$out" | accuracy)" "a fold's figures are those of its validation part"
rejects 65 $(train all.csv x --folds 3 --group-by nobody --quiet)
expect_text "$err" "no column \"nobody\""
rejects 2 $(train all.csv x --folds 3 --seeds 2 --quiet)

# The folder of the folds: each model on the rows that it did not see, as trained; all of them in a page and a table.
run eval --checkpoint folds --data-path all.csv --part valid --calibration none --quiet
expect_code 0
expect "eval's table is that of the training" cmp -s <(sed '/^Each fold/d' "$out" | awk '{ $1 = ""; print }') \
    <("$trident" $(train all.csv folds --folds 3 --stratify --group-by size --quiet --nproc-per-node 2) 2>/dev/null |
        sed '/^Figures/d' | awk '{ $1 = ""; print }')
rejects 2 eval --checkpoint folds --data-path all.csv --part valid --by size
run eval --checkpoint folds/fold-1 --data-path all.csv --part valid --by size --json --quiet
expect_code 0
expect "the groups of a part have its rows" test "$(json_number rows "$out")" = \
    "$(sed 's/.*"by"://' "$out" | grep -o '"rows":[0-9]*' | awk -F: '{ n += $2 } END { print n }')"
run eval --checkpoint folds --data-path all.csv --part valid --json --quiet
expect_text "$out" '{"folds":[{"folder":"folds/fold-1","figures":{"valid_loss":' '"mean":{' '"spread":{'
run checkpoint ls folds
expect_code 0
expect_text "$out" "fold-1" "fold-2" "fold-3"
run report folds
expect_code 0
expect_text "$out" "folds/fold-3" "mean" "spread" "folds/report.html ("
expect_text folds/report.html '"set":"folds"'
rejects 66 predict --checkpoint folds --data-path all.csv --quiet

# An ensemble: the mean of its members' probabilities, for one rank and two, and in a server.
run $(train data seeds --seeds 2 --seed 5 --quiet)
expect_code 0
expect_text "$out" "ensemble    seeds (2 members"
expect_text seeds/ensemble.json '"trident-ensemble"' '"seed-5"' '"seed-6"' '"mean"' '"spread"'
expect "one token store for each table" test "$(ls seeds/cache | wc -l)" = 2
run $(train data alone --seed 6 --quiet)
same "$(digest_of alone)" "$(digest_of seeds/seed-6)" "a member is the run of its seed"
for model in seeds seeds/seed-5 seeds/seed-6; do
    "$trident" predict --checkpoint $model --data-path data --quiet | tail -n +2 >"$(basename $model).csv"
done
paste -d, seeds.csv seed-5.csv seed-6.csv >joined.csv
expect "probabilities are means" awk -F, '{ for (c = 2; c <= 3; c++) { d = $c - ($(c + 3) + $(c + 6)) / 2
    if (d > 1e-7 || d < -1e-7) exit 1 } }' joined.csv
run predict --checkpoint seeds --data-path data --quiet --nproc-per-node 2 -o two.csv
expect_code 0
same "$(cat seeds.csv)" "$(tail -n +2 two.csv)" "two ranks predict the same"
run eval --checkpoint seeds --data-path data --quiet
expect_code 0
expect_text "$out" "folder" "seeds/seed-5" "seeds/seed-6" "mean of all"
run eval --checkpoint seeds --data-path data --json --quiet
expect_text "$out" '"members":[{"folder":"seeds/seed-5","figures":{'
rejects 2 $(train data seeds --quiet)
rejects 2 $(train all.csv folds --split 0.7,0.3 --quiet)
rejects 2 $(train data alone --seeds 2 --quiet)
rejects 2 $(train data x --seeds 2 --save-every 0)
rejects 2 export --checkpoint seeds --output-dir exported
rejects 2 digest seeds
echo '{"format": "trident-ensemble", "version": 1, "members": [{"folder": "../seed-5"}]}' >seeds/ensemble.json
rejects 65 eval --checkpoint seeds --data-path data

# A signal ends the training in progress, which is saved; the same command goes on with it.
"$trident" $(train data stopped --seeds 2 --epochs 400 --max-steps 0 --quiet) >"$out" 2>"$err" &
pid=$!
for ((i = 0; i < 200; i++)); do [ -e stopped/seed-42/metrics.jsonl ] && break || sleep 0.05; done
sleep 0.3
kill -TERM $pid
wait $pid
code=$? last_command="train --seeds, SIGTERM"
expect_code 75
expect_text "$err" "seed 42 was stopped"
expect "the first is saved" ls -d stopped/seed-42/checkpoint-*
expect "the second has not begun" test ! -e stopped/seed-43
finish
