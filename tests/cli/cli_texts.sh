# More than two texts (docs/guide/texts.md): inspect lists them; the third one decides and is learned; a list of two is
# the form with two keys; the same losses on meshes, in windows, with two encoders, after a resume, with fewer bits;
# plan, eval, predict, export, int8, explain, training without an input, and the server; other tasks; what is refused.
# timeout: 180
. "$(dirname "$0")/../lib/cli_lib.sh"
make_model model
# make_goods FILE ROWS FIRST: four texts of many different values; the third one alone says the label.
make_goods() {
    awk -v rows="$2" -v first="$3" 'BEGIN {
        print "title,story,note,more,size,label"
        for (i = first; i < first + rows; i++) {
            y = (i * 7 + int(i / 3)) % 2
            a = sprintf("%c %c", 97 + i % 26, 97 + int(i / 26) % 26)
            printf "the box %s,\"it was %s, and not very early and %s was late\",%s it is %s,found %s lost,%d,%d\n",
                a, i % 5 ? "a" : "the", a, y ? "bad" : "good", a, a, i % 11, y
        }
    }' >"$1"
}
mkdir -p goods
make_goods goods/train.csv 240 0
make_goods goods/valid.csv 48 240
make_goods goods/test.csv 60 288

run inspect goods --tokenizer model --write-config start.json
expect_code 0
expect_text start.json '"text_list": [' 'a guess: 4 columns hold free text' '"share_encoders": true'
expect "the longest text is the first" bash -c "grep -A1 text_list start.json | grep -q story"
expect "further texts are listed" grep -Eq '^title +text +text ' "$out"
run inspect goods --tokenizer model --json
expect_text "$out" '"text_list":["story",' '"role":"text"'

small='{"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,'
small+=' "intermediate_size": 64, "max_position_embeddings": 32}'
# make_texts FILE [KEYS]
make_texts() {
    cat >"$1" <<END
{"label_name": "label", "tab_field_list": ["size"], "primary_tokenizer": "$work/model", "max_sen_len": 16,
 "hidden_common_dim": 32, "fusion_hidden_dim": 32, "primary_encoder": $small${2:+, $2}}
END
}
make_texts plain.json
make_texts config.json '"text_list": ["title", "story", "note"]'
make_texts four.json '"text_list": ["title", "story", "note", "more"], "text_encoders": ["primary", "secondary",
    "primary", "secondary"], "secondary_encoder": {"model_type": "bert", "hidden_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 32}'
common=(--data-path goods --global-batch-size 16 --threads 1 --no-report --cache-dir cache)

# The label is in the third text alone.
run train --config config.json "${common[@]}" --epochs 4 --lr 3e-3 --output-dir one
expect_code 0
expect_text "$err" "the primary encoder reads these texts: primary, secondary, text3"
run eval --checkpoint one --data-path goods/test.csv --json
expect "it learned the third text: $(json_number accuracy "$out")" is "$(json_number accuracy "$out")" '>' 0.95

# A list of two texts is the form with two keys, to the byte.
few=("${common[@]}" --epochs 1 --max-steps 8 --lr 1e-3 --quiet --output-dir)
run train --config plain.json "${few[@]}" two --text-list title,note
expect_code 0
run train --config plain.json "${few[@]}" keys --primary-text-name title --secondary-text-name note --share-encoders
for file in preprocessing.json weights-00000.safetensors optimizer-00000.safetensors; do
    expect "$file of a list of two" cmp {two,keys}/checkpoint-8/$file
done
sed 's/"two"/"keys"/' two/checkpoint-8/config.json >two.json
expect "config.json of a list of two" cmp two.json keys/checkpoint-8/config.json

# The same losses on every mesh; with two encoders; in windows; resumed; with fewer bits.
mesh() { # CONFIG NAME MORE MESHES...
    local config=$1 name=$2 more=$3 how
    shift 3
    # shellcheck disable=SC2086
    run train --config "$config" "${few[@]}" "$name" $more
    expect_code 0
    for how in "$@"; do
        # shellcheck disable=SC2086
        run train --config "$config" "${few[@]}" "$name-mesh" $more $how
        expect_code 0
        losses_near "$name" "$name-mesh" 1e-5 "$name: $how has the losses of one rank"
        rm -rf "$name-mesh"
    done
}
two='--nproc-per-node 2'
beside mesh config.json few "" "$two" "$two --shard zero3" "$two --tp-size 2" \
    "$two --pp-size 2 --num-microbatches 4" '--num-microbatches 4' '--recompute full'
beside mesh four.json apart "" "$two --pp-size 2 --pipeline-shape branch" "$two --cp-size 2" \
    "$two --tp-size 2 --sequence-parallel" "$two --elastic"
beside mesh config.json long "--windows 3 --stride 4 --max-sen-len 8" "$two --tp-size 2" "$two"
together
run train --config config.json "${few[@]}" half --until-step 4
run train --config config.json "${few[@]}" half
expect_code 0
losses_near few half 0 "a run that was resumed has the same losses"
run digest few && cp "$out" whole.txt
run digest half
expect "and the same weights" cmp whole.txt "$out"
run train --config config.json "${few[@]}" bits --precision bf16
expect_code 0

# Numbers and several labels learn from them, too.
run train --config config.json "${few[@]}" number --task regression --label-name size --tab-field-list ''
expect_code 0
run train --config config.json "${few[@]}" folds --data-path goods/train.csv --folds 2
expect_code 0

# A stacked head reads the words of all texts, also of two that share an encoder; the fusion's tokens are texts, too.
for model in config plain; do
    texts=$([ $model = config ] || echo --text-list title,note)
    # shellcheck disable=SC2086
    run train --config $model.json "${few[@]}" stacked-$model $texts --stack linear --folds 2
    expect_code 0
    run eval --checkpoint stacked-$model --data-path goods/test.csv --json --quiet
    expect "the head finds the word: $(json_number accuracy "$out")" is "$(json_number accuracy "$out")" '>' 0.9
    run explain --checkpoint stacked-$model --data-path goods/test.csv --rows 2 --json
    expect_code 0
    run inspect goods/test.csv --model stacked-$model
    expect_code 0
done
run train --config config.json "${few[@]}" tokens --fusion columns
expect_code 0
run explain --checkpoint tokens --data-path goods/test.csv --rows 2 --json
expect_code 0
expect_text "$out" '"input":"note"' '"attention":'

run plan --config four.json --world-size 2 --pp-size 2 --params
expect_code 0
expect_text "$out" "text3.projection.weight" "text4.projection.bias"
run choose --config config.json --world-size 2
expect_code 0
run plan --config config.json --world-size 1 --json
expect_text "$out" '"primary_tokens":1536' '"primary_windows":96'

# predict, an export, int8, and where it looks.
run predict --checkpoint one --data-path goods/test.csv -o out.csv --quiet
expect_code 0
run predict --checkpoint one --data-path goods/test.csv -o two.csv --quiet --nproc-per-node 2 --pp-size 2
expect "two stages predict the same" cmp out.csv two.csv
run export --checkpoint one --output-dir exported --quiet --json
expect_text "$out" 'primary/ is the encoder of all texts'
expect_text exported/README.md '| text | note | `primary/`'
expect "it has one encoder" test ! -e exported/secondary
run predict --checkpoint exported --data-path goods/test.csv -o exported.csv --quiet
expect "an export predicts the same" cmp out.csv exported.csv
run predict --checkpoint exported --data-path goods/test.csv -o missing.csv --quiet --threshold 0.5
sed 's/^\(title,story,\)note/\1other/' goods/test.csv >other.csv
rejects 65 predict --checkpoint one --data-path other.csv
run export --checkpoint apart --output-dir apart-exported --quiet
expect_text apart-exported/README.md '| text | note | `primary/`' '| text | more | `secondary/`'
run quantize one --data-path goods/valid.csv -o int8 --max-drop 0.05
expect_code 0
run explain --checkpoint one --data-path goods/test.csv --rows 3 --json
expect_code 0
expect_text "$out" '"input":"title"' '"input":"story"' '"input":"note"' '"column":"note"'
run explain --checkpoint one --data-path goods/test.csv --importance --retrain --json
expect_code 0
grep -o '02-without-story.*' "$out" >without.txt
expect "without the second text nothing is lost" \
    grep -q '^02-without-story"[^}]*}[^}]*"accuracy":{"figure":1.0' without.txt
grep -o '03-without-note.*' "$out" >without.txt
expect "without the third it is" grep -q '^03-without-note"[^}]*}[^}]*"accuracy":{"figure":0\.[4-7]' without.txt
run explain --checkpoint apart --data-path goods/test.csv --importance --retrain --quiet
expect_code 0
expect_text "$out" "an encoder reads it before further texts"

# Refused.
short=("${common[@]}" --output-dir no)
rejects 2 train --config plain.json "${short[@]}" --text-list title
rejects 2 train --config plain.json "${short[@]}" --text-list title,note,title
rejects 2 train --config plain.json "${short[@]}" --text-list a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q
rejects 2 train --config plain.json "${short[@]}" --text-list title,note,label
rejects 2 train --config config.json "${short[@]}" --primary-text-name note
rejects 2 train --config config.json "${short[@]}" --secondary-text-list note
rejects 2 train --config config.json "${short[@]}" --tab-field-list size,note
rejects 2 train --config config.json "${short[@]}" --share-encoders false
rejects 2 train --config four.json "${short[@]}" --share-encoders true
rejects 2 train --config config.json "${short[@]}" --secondary-tokenizer other
rejects 2 train --config plain.json "${short[@]}" --text-encoders primary,secondary --primary-text-name title
rejects 2 train --config config.json "${short[@]}" --text-encoders primary,secondary
rejects 2 train --config config.json "${short[@]}" --text-encoders primary,secondary,third
rejects 2 train --config config.json "${short[@]}" --text-encoders primary,primary,secondary
rejects 2 train --config config.json "${short[@]}" --text-encoders secondary,primary,primary
rejects 65 train --config plain.json "${short[@]}" --text-list title,note,nothing

# The server: request keys are the columns' names.
run doctor
grep -q '^http *yes' "$out" || finish
"$trident" serve one --port 0 --max-rows 200 >serve.out 2>serve.err &
server=$!
for ((left = 400; left > 0; left--)); do grep -q try: serve.out && break || sleep 0.05; done
port=$(sed -n '1s/.* at https\{0,1\}:\/\/127.0.0.1:\([0-9]*\); try: .*/\1/p' serve.out)
ask() { # PATH BODY [TYPE]: the answer in $out
    last_command="POST $1 ${2:0:100}"
    exec 5<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\n' "$1" \
        "${3-application/json}" >&5
    printf 'Content-Length: %d\r\n\r\n%s' "${#2}" "$2" >&5
    sed '1,/^\r*$/d' <&5 >"$out"
    exec 5<&- 5>&-
}
awk -F, -v OFS=, 'NR == 1 { print $1, $2, $3, $5; next } { print $1, $2 "," $3, $4, $6 }' goods/test.csv >rows.csv
ask /invocations "$(cat rows.csv)" text/csv
expect "text/csv equals predict" cmp -s "$out" out.csv
ask /predict '{"inputs": [{"title": "the box", "story": "it was a box", "note": "bad it is", "size": 3}]}'
expect_text "$out" '"label":"1"'
ask /predict '{"inputs": [{"title": "the box", "story": "it was a box", "notes": "bad", "size": 3}]}'
expect_text "$out" 'no column \"notes\" (did you mean \"note\"?)'
ask /v2/models/one/infer '{"inputs": [{"name": "title", "datatype": "BYTES", "shape": [1], "data": ["the box"]},
    {"name": "story", "datatype": "BYTES", "shape": [1], "data": ["it was"]}, {"name": "note", "datatype": "BYTES",
    "shape": [1], "data": ["bad it is"]}, {"name": "size", "datatype": "FP64", "shape": [1], "data": [3]}]}'
expect_text "$out" '"data":["1"]' '"shape":[1,2]'
kill "$server" && wait "$server"
finish
