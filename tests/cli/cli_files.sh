# A run folder with foreign entries, and a machine that runs out of resources: nothing outside the folder is touched,
# nothing blocks, and no checkpoint is lost.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
common=(train --config config.json --data-path data --batch-size 8 --epochs 1 --threads 1 --quiet)
run "${common[@]}" --output-dir run --save-steps 2 --keep 9
expect_code 0
saved() { find "$1/" -maxdepth 1 -name 'checkpoint-*' | wc -l; }
expect "six checkpoints" test "$(saved run)" = 6

# ---- Links: what they lead to stays, whoever removes them ----
mkdir victim && echo kept >victim/precious && cp -r run/checkpoint-2 victim/deep
whole() { [ "$(cat victim/precious)" = kept ] && "$trident" checkpoint verify victim/deep >/dev/null 2>&1; }
fresh() { rm -rf t && cp -r run t; }
fresh
ln -s ../victim t/checkpoint-9.tmp.1
mkdir t/checkpoint-7.tmp.1 && ln -s ../../victim t/checkpoint-7.tmp.1/inner
ln -s ../../victim/precious t/checkpoint-7.tmp.1/file
run "${common[@]}" --output-dir t
expect_code 0
expect "a temporary folder that is a link, or holds one" whole
expect "the links themselves are gone" test -z "$(ls -d t/*.tmp* 2>/dev/null)"
fresh
rm -r t/checkpoint-4 && ln -s ../victim/deep t/checkpoint-4
run checkpoint prune t --keep 1
expect_code 0
expect "prune of a linked checkpoint" whole
fresh
ln -s ../victim/deep t/checkpoint-20
run "${common[@]}" --output-dir t --resume never --max-steps 3
expect_code 0
expect "a new run in the folder of another one" whole
expect "it is the newest, by the count in the manifest" grep -q '"sequence": 7,' t/checkpoint-3/manifest.json
run "${common[@]}" --output-dir t --max-steps 3
expect_code 0

# ---- Our own files are regular files: links are not written through, pipes are not waited for ----
for name in metrics.jsonl summary.json .lock .probe-0; do
    for kind in link pipe; do
        rm -rf t && mkdir t
        if [ $kind = link ]; then ln -s ../victim/precious "t/$name"; else mkfifo "t/$name"; fi
        last_command="train with $name as a $kind"
        timeout 60 "$trident" "${common[@]}" --output-dir t --max-steps 2 >"$out" 2>"$err"
        code=$?
        expect_code 74
        expect_text "$err" "t/$name" "a ${kind/link/symbolic link}" "remove or rename it"
        expect "what it leads to" whole
    done
done
ln -s t alias && rm -rf t && mkdir t
run "${common[@]}" --output-dir alias --max-steps 2
expect_code 0
expect "the folder itself may be a link" test -f t/metrics.jsonl
cp -al run copy && run "${common[@]}" --output-dir copy --resume never --max-steps 2
expect_code 0
expect "a copy by hard links is a copy" test "$(saved run)" = 6
expect "and so are the measurements" test "$(grep -c '"event":"checkpoint"' run/metrics.jsonl)" = 6

# ---- A file that a user names may be a link, a pipe, stdout ----
predict=(predict --checkpoint run --data-path data/test.csv --quiet)
"$trident" "${predict[@]}" >plain.csv
ln -s real.csv link.csv && : >real.csv
run "${predict[@]}" -o link.csv --force
expect_code 0
expect "through a link" cmp -s real.csv plain.csv
expect "which stays one" test -L link.csv
mkfifo pipe && { timeout 20 cat pipe >piped.csv & }
reader=$!
sleep 0.2
run "${predict[@]}" -o pipe
expect_code 0
wait $reader
expect "into a pipe" cmp -s piped.csv plain.csv
echo head >shown.csv
"$trident" "${predict[@]}" -o /dev/stdout >>shown.csv 2>"$err"
expect "to stdout, behind what is there" cmp -s <(tail -n +2 shown.csv) plain.csv
expect "/dev/stdout is what it was" test -L /dev/stdout
"$trident" "${predict[@]}" -o /dev/stdout 2>"$err" | cat >shown.csv
expect "to a pipe by that name" cmp -s shown.csv plain.csv

# ---- An output is never an input, by whatever link, and another existing file only with --force ----
mkdir tables && cp data/*.csv tables/ && cp config.json edited.json
{ cat data/train.csv && tail -n +2 data/valid.csv; } >many.csv
ln tables/test.csv hard.csv && ln -s tables/test.csv soft.csv && ln -s tables alias.d
sums() { cat tables/* edited.json many.csv run/checkpoint-*/* run/summary.json model/* 2>/dev/null | cksum; }
before=$(sums)
keeps() { # CODE ARGS...: refused, and every input is as it was
    rejects "$@"
    expect "inputs are as they were" test "$(sums)" = "$before"
}
for path in tables/test.csv hard.csv soft.csv alias.d/test.csv ./tables/../hard.csv; do
    for force in "" --force; do
        keeps 2 predict --checkpoint run --data-path tables/test.csv -o $path $force
    done
done
keeps 2 predict --checkpoint run --data-path tables -o tables/valid.csv --force
mkdir parts && cp data/test.csv parts/part-0.csv && cp data/test.csv parts/part-1.csv
keeps 2 predict --checkpoint run --data-path 'parts/part-*.csv' -o parts/part-1.csv --force
cp config.json run/notes.jsonl
keeps 2 explain --checkpoint run --data-path many.csv -o run/notes.jsonl --force
rm run/notes.jsonl
keeps 2 inspect many.csv --write-config many.csv --force
keeps 2 inspect many.csv --config edited.json --write-config edited.json --force
keeps 73 inspect many.csv --write-config edited.json
keeps 2 report run -o run/summary.json --force
keeps 73 report run -o many.csv
keeps 73 predict --checkpoint run --data-path many.csv -o edited.json.csv -o tables/train.csv
keeps 2 plan --config edited.json --svg edited.json --force
keeps 73 plan --config edited.json --svg many.csv
keeps 2 plan --config edited.json --svg model/vocab.txt --force
keeps 73 calibrate -o many.csv
keeps 73 vocab -o model many.csv
keeps 2 vocab -o model model/vocab.txt --force
echo secret-key >keys && chmod 600 keys
rejects 2 serve run --api-key-file keys --access-log keys --port 0
expect "keys are as they were" test "$(cat keys)" = secret-key
mkdir other && echo mine >other/all.json.bak
rejects 73 demo --output-dir other
expect "nothing was written there" test "$(ls other)" = all.json.bak
run report run && run report run # the page in its run folder is the command's own
expect_code 0
run report run -o ./run/report.html
expect_code 0
echo old >page.html && chmod 600 page.html
run report run -o page.html --force
expect_code 0
expect "replaced, with its permissions" test "$(head -c 9 page.html) $(stat -c %a page.html)" = "<!doctype 600"
expect "no temporary file is left" test -z "$(find . -name '*.tmp*')"

# ---- A folder that cannot be written to is said before anything is computed ----
mkdir locked && chmod 555 locked
last_command="trident predict -o locked/out.csv"
if [ "$(id -u)" != 0 ]; then as=(env)
else as=(setpriv --reuid=65534 --clear-groups); fi
chmod 755 "$work"
if "${as[@]}" test -r "$work/data/train.csv" -a ! -w locked && "${as[@]}" "$trident" version >"$out" 2>&1; then
    "${as[@]}" "$trident" predict --checkpoint nowhere --data-path data/valid.csv -o locked/out.csv >"$out" 2>"$err"
    code=$?
    expect_code 74
    expect_text "$err" "-o locked/out.csv: cannot write to the folder locked: Permission denied"
else
    echo "left out: a folder without write permission (no other user to be here)"
fi

# ---- A small stack, of threads too ----
[ -n "${TRI_SANITIZED:-}" ] || for words in "plan --config config.json --world-size 8 --tp-size 2 --pp-size 2 --check" \
    "train --config config.json --data-path data --batch-size 8 --max-steps 2 --warmup-steps 0 --output-dir stack" \
    "train --config config.json --data-path data --batch-size 8 --max-steps 4 --warmup-steps 0 --output-dir stack \
    --nproc-per-node 2" "predict --checkpoint run --data-path data/test.csv --precision int8 --threads 2" \
    "eval --checkpoint run --data-path data/test.csv" "quantize run -o stack-int8 --max-drop 1" \
    "choose --config config.json --world-size 4 --hardware h200x8 --batch-size 8" "report run" "inspect data"; do
    last_command="trident $words under ulimit -s 192"
    (ulimit -s 192 && exec "$trident" $words) >"$out" 2>"$err"
    code=$?
    expect_code 0
done

# ---- A shortage is no damage: what cannot be checked is neither removed nor passed over ----
done_or_not() { # CODE FOLDER: 3 left after a success, 6 after a failure
    if [ "$1" = 0 ]; then [ "$(saved "$2")" = 3 ]; else [ "$(saved "$2")" = 6 ]; fi
}
short=0
for limit in 5000 6000 7000 8000 9000 10000 12000 14000 16000 20000; do
    fresh
    last_command="prune under ulimit -v $limit"
    (ulimit -v $limit && exec "$trident" checkpoint prune t --keep 3) >"$out" 2>"$err"
    code=$?
    rm -f t/best_checkpoint.json
    expect "exit $code and $(saved t) left" done_or_not $code t
    [ $code = 71 ] && short=$((short + 1))
done
for files in 4 5 6 7 8 9; do
    fresh
    last_command="prune under ulimit -n $files"
    (ulimit -n $files && exec "$trident" checkpoint prune t --keep 3) >"$out" 2>"$err"
    code=$?
    expect "exit $code and $(saved t) left" done_or_not $code t
    [ $code = 71 ] && short=$((short + 1))
done
expect "some of them are told: exit 71" test $short -gt 0
fresh
rm t/checkpoint-12/manifest.json && mkdir t/checkpoint-12/manifest.json # cannot be read, and nobody knows why
for command in "checkpoint prune t --keep 1" "checkpoint ls t" "checkpoint verify t" "digest t"; do
    rejects 74 $command
done
rejects 74 "${common[@]}" --output-dir t --epochs 2
expect "an I/O error is no reason to begin anew" test "$(grep -c -- '--resume never' "$err")" = 0
expect "all are there" test "$(saved t)" = 6

# ---- Closed descriptors: nothing that is printed lands in a file ----
loud=(train --config config.json --data-path data --batch-size 8 --epochs 1 --threads 1 --cache-dir cache)
for ranks in 1 2; do
    rm -rf closed cache
    last_command="train with descriptors 0 to 2 closed, $ranks ranks"
    "$trident" "${loud[@]}" --output-dir closed --nproc-per-node $ranks <&- >&- 2>&-
    code=$?
    expect_code 0
    expect "a process number in .lock, and nothing else" test "$(tr -d '0-9' <closed/.lock | tr '\n' .)" = .
    expect "no words in the token stores" test -z "$(grep -laE 'epoch|finished|step +[0-9]' cache/*.tokens)"
    run checkpoint verify closed
    expect_code 0
    run "${loud[@]}" --output-dir again --resume never --nproc-per-node $ranks
    expect "what was tokenised is used again" test "$code" = 0 -a "$(find cache -name '*.tokens' | wc -l)" = 2
done
for closed in '<&-' '>&-' '2>&-'; do
    last_command="train $closed"
    rm -rf closed
    eval '"$trident" "${common[@]}" --output-dir closed --max-steps 2 '"$closed" >/dev/null 2>&1
    code=$?
    expect_code 0
    expect "only a number in .lock" test "$(tr -d '0-9' <closed/.lock | tr '\n' .)" = .
done

# Results that nobody can get are a failure; a file that was asked for is none.
for words in "predict --checkpoint run --data-path data/test.csv" "predict --checkpoint run --data-path data/test.csv \
    --nproc-per-node 2" "predict --checkpoint run --data-path data/test.csv -o /dev/stdout" "digest run" \
    "mesh --world-size 4" \
    "eval --checkpoint run --data-path data/test.csv --json" "inspect data" "checkpoint ls run" "version" \
    "plan --config config.json" "tokenize --tokenizer model data/test.csv" "explain --checkpoint run --data-path \
    data/test.csv --rows 1" "report run" "man" "train --help"; do
    last_command="trident $words >&-"
    "$trident" $words >&- 2>"$err"
    code=$?
    expect_code 74
done
"$trident" "${predict[@]}" -o closed.csv >&- 2>"$err"
code=$?
expect_code 0
expect "the file that was asked for" cmp -s closed.csv plain.csv

# ---- A save that a failing run was in the middle of leaves nothing half-made ----
for ranks in 1 2; do
    rm -rf nan
    run "${common[@]}" --output-dir nan --save-steps 1 --lr 1e38 --warmup-steps 0 --async-save --nproc-per-node $ranks
    expect_code 79
    expect "nothing half-made is left" test -z "$(ls -d nan/*.tmp* 2>/dev/null)"
done
finish
