# explain: what leaving out inputs and words changes, against predict on tables that lack them; importance; the page.
. "$(dirname "$0")/../lib/cli_lib.sh"

# One word of the first text decides the label; the second text and the number say nothing.
mkdir -p models/t data
{ printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'
    printf '%s\n' good bad the shoes were this time and i think so day; } >models/t/vocab.txt
awk 'BEGIN { srand(3); print "text,note,size,label"
    for (i = 0; i < 300; i++) {
        g = rand() < 0.5
        printf "the shoes were %s this time,day %s,%d,%s\n", g ? "good" : "bad", rand() < 0.5 ? "the" : "i",
            int(rand() * 9), g ? "yes" : "no"
    } }' >data/train.csv
head -n 41 data/train.csv >data/valid.csv
encoder='{"vocab_size": 17, "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2,
 "intermediate_size": 32}'
cat >c.json <<J
{"label_name": "label", "primary_text_name": "text", "secondary_text_name": "note", "tab_field_list": ["size"],
 "primary_tokenizer": "t", "hidden_common_dim": 16, "fusion_hidden_dim": 16, "max_sen_len": 128, "pooling": "mean",
 "primary_encoder": $encoder, "secondary_encoder": $encoder, "lr": 5e-3, "batch_size": 20, "epochs": 4}
J
run train --config c.json --data-path data --models-dir models --output-dir run --threads 1 --quiet
expect_code 0

# ---- Effects are differences of probabilities that predict gives ----
# A text without either word looks like one of the two classes: the other one's word decides.
make_one() { printf 'text,note,size,label\nthe shoes were %s this time,day i,4,%s\n' "$1" "$2" >one.csv; }
effect() { # effect '"input":"size"': the effect of the entry that has this
    grep -o "{[^{}]*$1[^{}]*}" why.json | sed -n 's/.*"effect":\([-0-9.e]*\).*/\1/p'
}
for kind in good:yes:no:3 bad:no:yes:2; do
    IFS=: read -r word label other field <<<"$kind"
    make_one "$word" "$label"
    run explain --checkpoint run --data-path one.csv --label "$label" --json
    expect_code 0
    cp "$out" why.json
    ! is "$(effect "\"word\":\"$word\"")" ">" 0.2 || break
done
expect "the deciding word matters" is "$(effect "\"word\":\"$word\"")" ">" 0.2
# lowered FROM TO: the probability of the row's label, less that where FROM in it is TO.
prob() { run predict --checkpoint run --data-path "$1" --quiet && tail -n 1 "$out" | cut -d, -f"$field"; }
whole=$(prob one.csv)
lowered() {
    sed "2s/$1/$2/" one.csv >less.csv
    awk -v a="$whole" -v b="$(prob less.csv)" 'BEGIN { printf "%.9f", a - b }'
}
same() {
    expect "$1: $2 is $3" awk -v a="$2" -v b="$3" 'BEGIN { exit !(a != "" && b != "" && (a - b) ^ 2 < 1e-12) }'
}
same "without the number" "$(effect '"input":"size"')" "$(lowered ',4,' ',,')"
same "without the text" "$(effect '"input":"text"')" "$(lowered '^[^,]*' '')"
same "without the note" "$(effect '"input":"note"')" "$(lowered ',day i,' ',,')"
same "without a word" "$(effect "\"word\":\"$word\"")" "$(lowered "$word" '')"
same "without another word" "$(effect '"word":"day"')" "$(lowered 'day' '')"
expect_text why.json '"row":1' "\"label\":\"$label\"" "\"explained\":\"$label\"" '"rows_computed":12' '"value":"4"'

run explain --checkpoint run --data-path one.csv
expect_code 0
expect_text "$out" "row 1: $label, probability " "size = 4" "words: $word +"
run explain --checkpoint run --data-path one.csv --label "$other"
expect_text "$out" "row 1: $other, probability " "(predicted: $label)" "words: $word -"

# ---- A text of more words than rows: 40 rows at most, and the word that counts is found among them ----
{ echo text,note,size,label
    awk -v word="$word" -v label="$label" 'BEGIN {
        for (i = 0; i < 100; i++) printf "%s ", i == 61 ? word : "shoes"
        print ",,," label
    }'; } >long.csv
run explain --checkpoint run --data-path long.csv --label "$label" --json
expect_code 0
cp "$out" why.json
expect "at most 40 rows" is "$(json_number rows_computed why.json)" "<" 41
expect "its effect is its own" test -n "$(grep -o "{[^{}]*\"word\":\"$word\"[^{}]*}" why.json | grep -v shared_by)"

# The first words that were left out together: so many from that one on.
grep -o '"words":\[.*' why.json | grep -o '{"column[^}]*}' >words
first=$(grep -n shared_by words | head -n 1 | cut -d: -f1)
shared=$(sed -n "${first}s/.*\"shared_by\":\([0-9]*\).*/\1/p" words)
each=$(sed -n "${first}s/.*\"effect\":\([-0-9.e]*\).*/\1/p" words)
expect "some words were left out together" test "${shared:-0}" -gt 1
before=$(prob long.csv)
awk -v from="$first" -v n="$shared" 'NR == 2 { for (i = from; i < from + n; i++) $i = "" } { print }' long.csv >less.csv
same "words share their effect" "$(awk -v e="$each" -v n="$shared" 'BEGIN { printf "%.9f", e * n }')" \
    "$(awk -v a="$before" -v b="$(prob less.csv)" 'BEGIN { printf "%.9f", a - b }')"

# ---- More columns than rows: groups share their effect; nothing is computed for what is missing ----
mkdir -p wide
awk -F, -v OFS=, '{ for (c = 0; c < 30; c++) $0 = $0 OFS (NR == 1 ? "c" c : (NR * (c + 3)) % 13); print }' \
    data/valid.csv >wide/train.csv
columns=$(seq -s ', ' -f '"c%g"' 0 29)
sed "s/\"size\"/$columns/" c.json >wide.json
run train --config wide.json --data-path wide --models-dir models --output-dir wide-run --threads 1 --epochs 2 --quiet
expect_code 0
{ head -n 2 wide/train.csv; echo ',,,yes,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,'; } >rows.csv
run explain --checkpoint wide-run --data-path rows.csv --label yes --json
expect_code 0
head -n 1 "$out" >why.json
expect "a row without any input is computed once" test "$(sed -n 2p "$out" | json_number rows_computed -)" = 1
expect "groups of two" grep -q '"input":"c1","kind":"column","value":"[0-9]*","effect":[-0-9.e]*,"shared_by":2' why.json
yes() { "$trident" predict --checkpoint wide-run --data-path "$1" --quiet | sed -n 2p | cut -d, -f3; }
awk -F, -v OFS=, 'NR > 1 { $5 = $6 = "" } { print }' rows.csv >less.csv
same "columns share their effect" "$(awk -v e="$(effect '"input":"c0"')" 'BEGIN { printf "%.9f", 2 * e }')" \
    "$(awk -v a="$(yes rows.csv)" -v b="$(yes less.csv)" 'BEGIN { printf "%.9f", a - b }')"

# A group that matters is cut until the column that counts has an effect of its own; the strongest are printed.
mkdir -p sole
awk 'BEGIN { srand(5); printf "text,note,label"; for (c = 0; c < 60; c++) printf ",c%d", c; print ""
    for (i = 0; i < 200; i++) {
        y = rand() < 0.5
        printf "shoes,day,%s", y ? "yes" : "no"
        for (c = 0; c < 60; c++) printf ",%d", c == 17 ? (y ? 9 : 1) : int(rand() * 9)
        print ""
    } }' >sole/train.csv
sed "s/\"size\"/$(seq -s ', ' -f '"c%g"' 0 59)/" c.json >sole.json
run train --config sole.json --data-path sole/train.csv --split 0.8,0.2 --models-dir models --output-dir sole-run \
    --threads 1 --epochs 8 --quiet
expect_code 0
run explain --checkpoint sole-run --data-path sole/train.csv --rows 1 --json --quiet
cp "$out" why.json
expect "at most 40 rows of 60 columns" is "$(json_number rows_computed why.json)" "<" 41
grep -o '{"input":"c[^{}]*}' why.json >columns
expect "groups of three at first" grep -q '"shared_by":3' columns
alone=$(grep -v shared_by columns | head -n 1)
expect "columns of groups that matter stand alone" test "$(grep -cv shared_by columns)" -gt 2
column=$(sed 's/.*"input":"c\([0-9]*\)".*/\1/' <<<"$alone") each=$(sed 's/.*"effect":\([-0-9.e]*\).*/\1/' <<<"$alone")
sole() {
    "$trident" predict --checkpoint sole-run --data-path "$1" --quiet | sed -n 2p | tr , '\n' | tail -n +2 |
        sort -g | tail -n 1
}
head -n 2 sole/train.csv >rows.csv
awk -F, -v OFS=, -v c="$((column + 4))" 'NR == 2 { $c = "" } { print }' rows.csv >less.csv
same "the effect of c$column alone" "$each" \
    "$(awk -v a="$(sole rows.csv)" -v b="$(sole less.csv)" 'BEGIN { printf "%.9f", a - b }')"
run explain --checkpoint sole-run --data-path sole/train.csv --rows 1 --quiet
expect_text "$out" "and 42 further inputs with smaller effects (--json has all)"
expect "20 inputs" test "$(grep -c '^  [+-]0' "$out")" = 20
expect "the strongest first" awk '/^  [+-]0/ { e = $1 < 0 ? -$1 : $1; if (n++ && e > last) wrong = 1; last = e }
    END { exit wrong }' "$out"

# Rows of a part: those that predict has, by their numbers in the table.
run predict --checkpoint sole-run --data-path sole/train.csv --part valid --quiet
cut -d, -f1 "$out" | tail -n +2 >rows.txt
run explain --checkpoint sole-run --data-path sole/train.csv --part valid --json --quiet
expect_code 0
expect "rows of the part" cmp rows.txt <(grep -o '^{"row":[0-9]*' "$out" | cut -d: -f2)
run explain --checkpoint sole-run --data-path sole/train.csv --part valid --importance --json --quiet
expect "as many are permuted" test "$(json_number rows "$out")" = "$(wc -l <rows.txt)"
rejects 2 explain --checkpoint sole-run --data-path sole/train.csv --part valid --first 999
rejects 2 explain --checkpoint run --data-path data/train.csv --part test --quiet

# ---- Rows, importance, pages ----
run explain --checkpoint run --data-path data --first 3 --rows 2 --json
expect "two rows, from the third on" test "$(grep -o '"row":[0-9]*' "$out" | tr '\n' ' ')" = '"row":3 "row":4 '
run explain --checkpoint run --data-path data --importance --rows 40 --json --quiet
expect_code 0
cp "$out" worse.json
worse() { sed "s/.*\"input\":\"$1\"[^}]*\"log_loss\":{\"worse\":\([-0-9.e]*\).*/\1/" worse.json; }
expect "permuted texts are missed more than numbers" \
    is "$(worse text)" ">" "$(awk -v a="$(worse size)" -v b="$(worse note)" 'BEGIN { print 5 * (a + b) }')"
run explain --checkpoint run --data-path data --importance --rows 40 --json --quiet
expect "the same permutations again" cmp -s "$out" worse.json
run explain --checkpoint run --data-path data --importance --rows 40
expect_text "$out" "input permuted" "(none)" "40 rows, 3 permutations of each input."
checked run explain --checkpoint run --data-path data --rows 5 -o why.html
expect_code 0
expect_text why.html '<title>Trident explanations</title>' '"word":"good"' 'by being there'
expect "no mark is left" test -z "$(grep -o '@data@\|@explain[a-z.]*@\|@report.css@' why.html)"
echo 'the </script><b> shoes,day,1,yes' >>one.csv
run explain --checkpoint run --data-path one.csv -o why.html --force --quiet
expect "a text cannot end the script" test "$(grep -c '</script>' why.html)" = 2

awk -F, 'NR == 1 || $NF == "yes"' data/valid.csv >alike.csv
run explain --checkpoint run --data-path alike.csv --importance --repeats 1
expect_text "$out" "1 permutation of each"
expect "rows of one class have no ROC AUC" awk '/^\(none\)/ && $NF == "-" { n++ } /^text/ && $6 == "-" { n++ }
    END { exit n != 2 }' "$out"

# ---- Trained again without each input ----
# A column decides the label; others, and the texts, say nothing.
mkdir -p again
awk 'BEGIN { srand(7); print "text,note,mark,noise,label"
    for (i = 0; i < 300; i++) {
        y = rand() < 0.5
        printf "shoes %s,day %s,%d,%d,%s\n", rand() < 0.5 ? "the" : "i", rand() < 0.5 ? "the" : "i",
            rand() < 0.9 ? (y ? 9 : 1) : 5, rand() * 9, y ? "yes" : "no"
    } }' >again/train.csv
{ head -n 1 again/train.csv; tail -n 100 again/train.csv; } >again/valid.csv
sed 's/\["size"\]/["noise", "mark"], "tabular": "embedded", "column_dim": 4/' c.json >again.json
run train --config again.json --data-path again --models-dir models --output-dir again-run --threads 1 --epochs 8 \
    --quiet
expect_code 0
retrained() { run explain --checkpoint again-run --data-path again --importance --retrain --quiet "$@"; }
retrained --json
expect_code 0
cp "$out" again.jsonl
# without INPUT FIGURE: low end and high end of the interval in models without it.
without() {
    sed 's/{"input"/\n&/g' again.jsonl | grep -F "{\"input\":\"$1\"" | sed 's/.*"retrained":{"folder//' |
        sed "s/.*\"$2\":{[^}]*\"interval\":\[\([-0-9.e]*\),\([-0-9.e]*\)\].*/\1 \2/"
}
for what in mark '(table)'; do
    for figure in log_loss accuracy roc_auc; do
        expect "without $what $figure is worse" awk '{ exit !($1 > 0 && $2 > $1) }' <<<"$(without "$what" $figure)"
    done
done
for what in text note noise; do
    expect "without $what nothing is lost" awk '{ exit !($1 < 0.02 && $2 < 0.2) }' <<<"$(without "$what" log_loss)"
done
expect "the noise is not missed" awk '{ exit !($1 < 0) }' <<<"$(without noise log_loss)"
expect_text again.jsonl '"retrained":{"whole":"again-run","changed":{},"folder":"again-run/retrain"}' \
    '"folder":"again-run/retrain/03-without-noise"' '"input":"(table)","kind":"table"'
# What the figures are of: the models in these folders.
run eval --checkpoint again-run/retrain/04-without-mark --data-path again --json --quiet
own=$(json_number log_loss "$out" | cut -c1-7)
expect "the model's own log loss" grep -qF "\"figure\":$own" again.jsonl
expect "a text takes the other's place" grep -q '"primary_text_name": "note"' again-run/retrain/01-without-text.json
expect "and leaves its own" test 0 = "$(grep -c '"secondary_' again-run/retrain/01-without-text.json)"
before=$(stat -c %Y%i again-run/retrain/*/checkpoint-*/manifest.json)
retrained
expect_code 0
expect_text "$out" "input permuted" "trained without" "95 % interval" "with all: again-run."
expect "what was trained stays" test "$before" = "$(stat -c %Y%i again-run/retrain/*/checkpoint-*/manifest.json)"
retrained --max-steps 5
expect_code 0
expect_text "$out" "with all: again-run/retrain-max_steps-5/00-all." "All were trained with max_steps 5 in place of"
retrained -o again.html
expect_text again.html '"changed":{}'
# A signal ends the training that runs; the same command goes on.
rm -r again-run/retrain
"$trident" explain --checkpoint again-run --data-path again --importance --retrain >/dev/null 2>"$err" &
pid=$!
for _ in $(seq 400); do grep -q 'without "text"' "$err" && break || sleep 0.05; done
kill -INT $pid
wait $pid
code=$? last_command="explain --retrain, stopped"
expect_code 75
retrained
expect_code 0
sed 's/"secondary_[a-z_]*": "note", //; s/"secondary_encoder": {[^}]*}, //' <<<"$(tr '\n' ' ' <again.json)" >single.json
sed -i 's/"tab_field_list": [^]]*\],/"tab_field_list": ["mark"],/' single.json
run train --config single.json --data-path again --models-dir models --output-dir single-run --threads 1 \
    --epochs 1 --quiet
expect_code 0
run explain --checkpoint single-run --data-path again --importance --retrain --quiet
expect_code 0
expect_text "$out" "text was not left out of training: a model reads at least one text."
sed -i 's/"tab_field_list": [^]]*\],//' single.json
run train --config single.json --data-path again --models-dir models --output-dir text-run --threads 1 \
    --epochs 1 --quiet
expect_code 0
run export --checkpoint again-run --output-dir exported --quiet

# ---- Refused ----
rejects 2 explain --checkpoint text-run --data-path again --importance --retrain
rejects 2 explain --checkpoint exported --data-path again --importance --retrain
rejects 2 explain --checkpoint again-run --data-path again --retrain
rejects 2 explain --checkpoint again-run --data-path again --importance --epochs 2
rejects 2 explain --checkpoint run --data-path data --importance --label yes
rejects 2 explain --checkpoint run --data-path one.csv -o why.pdf
rejects 2 explain --checkpoint run --data-path one.csv --first 9
rejects 2 explain --checkpoint run --data-path one.csv --label maybe
printf 'text,note,label\na,b,yes\n' >narrow.csv
rejects 65 explain --checkpoint run --data-path narrow.csv
printf 'text,note,size,label\na,b,1,perhaps\nc,d,2,yes\n' >odd.csv
rejects 65 explain --checkpoint run --data-path odd.csv --importance
# Before anything is trained.
rejects 65 explain --checkpoint run --data-path odd.csv --importance --retrain
expect "nothing was trained" test ! -e run/retrain
finish
