# Drift (docs/guide/living.md): what a model keeps of its training and validation rows; a table beside it, by `inspect
# --model`; /metrics of a server that gets other rows; numbers, several labels and an ensemble; what is damaged.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_model model
# make_shops FILE ROWS FIRST HIGH SHOPS: sizes from HIGH on, one in ten missing; shops in turn; longer texts if HIGH.
make_shops() {
    awk -v rows="$2" -v first="$3" -v high="$4" -v shops="$5" 'BEGIN {
        print "text,size,shop,label,price"
        for (i = first; i < first + rows; i++) {
            y = (i * 7 + int(i / 3)) % 2
            printf "the box was %s%s,%s,%s,%s,%d\n", y ? "bad" : "good", high ? " and it is very very late" : "",
                i % 10 ? high + i * 13 % 50 : "", substr(shops, 1 + i % length(shops), 1), y ? "no" : "yes",
                10 + 5 * y + i % 3
        }
    }' >"$1"
}
mkdir shops
make_shops shops/train.csv 400 0 0 abc
make_shops shops/valid.csv 200 400 0 abc
make_shops like.csv 300 600 0 abc
make_shops other.csv 300 600 40 bdd
make_config config.json '"tab_field_list": ["size", "shop"]' '"is_binary": true'
sed -i '/"secondary_/d' config.json
common=(--config config.json --data-path shops --batch-size 16 --epochs 3 --threads 1 --quiet --lr 3e-3)
run train "${common[@]}" --output-dir one
expect_code 0
psi() { # NAME: of the comparison in $out
    sed "s/.*\"name\":\"$1\",\"psi\":\([-0-9.e]*\).*/\1/" "$out"
}

# A table like training's, and one that differs in all.
run inspect like.csv --model one --json
expect_code 0
expect_text "$out" '"model":{"checkpoint":"one/checkpoint-' '"table":"like.csv","rows":300,"drift":[{"kind":'
for of in size shop text label; do
    expect "$of has not moved: $(psi $of)" is "$(psi $of)" '<' 0.1
done
run inspect other.csv --model one --json --label-name label
expect_code 0
for of in size shop text; do
    expect "$of has moved: $(psi $of)" is "$(psi $of)" '>' 0.25
done
cp "$out" other.json
first=$(sed 's/.*"drift":\[{"kind":"[a-z]*","name":"\([a-z]*\)".*/\1/' other.json)
expect "the one that moved most, $first, is the first" is "$(psi "$first")" '>=' "$(psi size)"
run inspect other.csv --model one --label-name label
expect_text "$out" "300 rows of other.csv, and those that one/checkpoint-" "size" "column" "moved far" "confidence"
# By hand: shop had a, b, c a third each, and has b for a third and otherwise d, which training did not have.
want=$(awk 'function part(a, e) { a = a < 1e-4 ? 1e-4 : a; e = e < 1e-4 ? 1e-4 : e; return (a - e) * log(a / e) }
    BEGIN { printf "%.9g", part(0, 134 / 400) + part(1 / 3, 133 / 400) + part(0, 133 / 400) + part(2 / 3, 0) }')
expect "shop is $(sed 's/.*"name":"shop","psi":\([0-9.]*\).*/\1/' other.json), by hand $want" is \
    "$(awk -v a="$want" -v b="$(sed 's/.*"name":"shop","psi":\([0-9.]*\).*/\1/' other.json)" \
        'BEGIN { d = a - b; print d < 0 ? -d : d }')" '<' 1e-5
head -n 50 like.csv >few.csv
run inspect few.csv --model one
expect_text "$out" "too few rows"

# The weights do not know of it: an export has it, a resumed run too, and every mesh the same.
run export --checkpoint one --output-dir exported --quiet
run inspect other.csv --model exported --json --label-name label
expect "an export says the same" test "$(sed 's/.*"drift"//' "$out")" = "$(sed 's/.*"drift"//' other.json)"
run train "${common[@]}" --output-dir half --until-epoch 2
run train "${common[@]}" --output-dir half
state() {
    tr -d '\n ' <"$1/checkpoint-75/manifest.json" | grep -o '"\(answers\|reference\)":\[[^]]*\].*' | head -c 3000
}
expect "there is some" test -n "$(state one)"
expect "a resumed run keeps the same" test "$(state half)" = "$(state one)"
run train "${common[@]}" --output-dir two --nproc-per-node 2 --batch-size 8
expect_code 0
run inspect other.csv --model two
expect_code 0

# Columns as vectors, dates, numbers and several labels; an ensemble compares what it reads.
run train "${common[@]}" --output-dir vectors --tabular embedded --max-steps 2
expect_code 0
run inspect other.csv --model vectors --json --label-name label
expect "as vectors, size is $(psi size)" is "$(psi size)" '>' 0.25
sed 's/^{/{"min_category_rows": 134, /' config.json >rare.json
run train "${common[@]}" --config rare.json --output-dir rare --max-steps 2
expect_code 0
run inspect like.csv --model rare --json --label-name label
expect "rare shops are not missing ones: $(psi shop)" is "$(psi shop)" '<' 0.1
sed 's/^{/{"hashed_field_list": ["shop"], /' config.json >hashed.json
run train "${common[@]}" --config hashed.json --output-dir hashed --max-steps 2
expect_code 0
sed 's/,[abc],/,a rather long name,/' like.csv >long.csv
run inspect like.csv --model hashed --json --label-name label
expect "hashed, shop has not moved: $(psi shop)" is "$(psi shop)" '<' 0.1
run inspect long.csv --model hashed --json --label-name label
expect "longer names are others: $(psi shop)" is "$(psi shop)" '>' 0.25
run train "${common[@]}" --output-dir prices --label-name price --task regression --max-steps 2
expect_code 0
run inspect like.csv --model prices --json --label-name price
expect_text "$out" '"kind":"answer","name":"prediction","psi":'
run train "${common[@]}" --output-dir tags --label-name label --task multilabel --max-steps 2
expect_code 0
run inspect like.csv --model tags --json --label-name label
expect_text "$out" '"kind":"answer","name":"no","psi":' '"name":"yes"' '"name":"confidence"'
run train "${common[@]}" --output-dir seeds --seeds 2 --max-steps 2
expect_code 0
run inspect like.csv --model seeds --json
expect_text "$out" '"kind":"column","name":"size"'
expect "not the mean's answers" bash -c "! grep -q '\"kind\":\"answer\"' '$out'"

# Damaged (test_bins has lists that are wrong behind a good checksum), and none at all.
cp -r exported broken && sed -i 's/"counts"/"count"/' broken/manifest.json
rejects 65 inspect like.csv --model broken
rejects 66 inspect like.csv --model nowhere
rejects 66 inspect nowhere.csv --model one

# A server: nothing to compare, then rows like training's, then others.
run doctor
grep -q '^http *yes' "$out" || finish
"$trident" serve one --port 0 --max-rows 400 >serve.out 2>serve.err &
server=$!
for ((left = 400; left > 0; left--)); do grep -q try: serve.out && break || sleep 0.05; done
port=$(sed -n '1s/.* at https\{0,1\}:\/\/127.0.0.1:\([0-9]*\); try: .*/\1/p' serve.out)
ask() { # METHOD PATH [FILE]: the answer in $out
    last_command="$1 $2 ${3-}"
    exec 5<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf '%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: text/csv\r\n' "$1" "$2" >&5
    printf 'Content-Length: %d\r\n\r\n' "$([ -z "${3-}" ] && echo 0 || wc -c <"$3")" >&5
    [ -z "${3-}" ] || cat "$3" >&5
    sed '1,/^\r*$/d' <&5 >"$out"
    exec 5<&- 5>&-
}
gauge() { sed -n "s/^$1{model=\"one\"$2} \([0-9.e+-]*\)\r*$/\1/p" "$out"; }
for table in like other; do cut -d, -f1-3 $table.csv >$table.in.csv; done
ask GET /metrics
expect "no rows yet" test "$(gauge trident_drift_rows '')" = 0
expect "so no index" bash -c "! grep -q '^trident_drift_psi{' '$out'"
ask POST /invocations like.in.csv
ask GET /metrics
expect "all rows" test "$(gauge trident_drift_rows '')" = 300
expect "size has not moved" is "$(gauge trident_drift_psi ',kind="column",name="size"')" '<' 0.1
share=$(gauge trident_answer_share ',kind="answer",name="label",label="yes"')
run predict --checkpoint one --data-path like.csv -o like.out.csv --quiet
expect "the share of yes, $share, is that of predict" is "$share" == \
    "$(awk -F, 'NR > 1 { n += $1 == "yes" } END { printf "%.9g", n / (NR - 1) }' like.out.csv)"
for ((i = 0; i < 4; i++)); do ask POST /invocations other.in.csv; done
ask GET /metrics
expect "size has moved" is "$(gauge trident_drift_psi ',kind="column",name="size"')" '>' 0.25
expect "and the texts' lengths" is "$(gauge trident_drift_psi ',kind="text",name="text"')" '>' 0.25
expect_text "$out" 'trident_drift_psi{model="one",kind="answer",name="confidence"} ' ',le="+Inf"} '
for ((i = 0; i < 56; i++)); do ask POST /invocations like.in.csv; done
ask GET /metrics
rows=$(gauge trident_drift_rows '')
expect "the first rows are forgotten: $rows are counted" is "$rows" '<' 16385
expect "and with them what moved" is "$(gauge trident_drift_psi ',kind="column",name="size"')" '<' 0.01
kill "$server" && wait "$server"
finish
