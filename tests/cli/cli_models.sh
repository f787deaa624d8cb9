# Where models are found: --models-dir, ./models, Hugging Face's cache; what an incomplete or wrong folder is told.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all

train=(train --data-path data --max-steps 1 --batch-size 8 --epochs 1 --save-every 0 --no-report --threads 1
    --resume never --output-dir run)
run train --config config.json --data-path data --output-dir first --max-steps 1 --batch-size 8 --threads 1
run export --checkpoint first --output-dir exported
expect_code 0

# named NAME: config.json of one text with an encoder by that name.
named() {
    cat >config.json <<END
{"label_name": "label", "primary_text_name": "text", "primary_tokenizer": "$1", "hidden_common_dim": 8,
 "fusion_hidden_dim": 8, "max_sen_len": 32}
END
}
# cached MODEL REVISION: exported/primary as a snapshot of the cache; its files are links.
cached() {
    local at=$HF_HUB_CACHE/models--$1 file
    mkdir -p "$at/refs" "$at/blobs" "$at/snapshots/$2"
    printf '%s' "$2" >"$at/refs/main"
    for file in exported/primary/*; do
        cp "$file" "$at/blobs/$(basename "$file").$2"
        ln -sf "../../blobs/$(basename "$file").$2" "$at/snapshots/$2/$(basename "$file")"
    done
}

# Nothing there: each place, and the line that downloads it.
named lab/tiny-encoder
rejects 66 "${train[@]}" --config config.json --models-dir mine
rejects 66 tokenize --tokenizer tiny
rejects 66 tokenize --tokenizer a--b

# In the cache; a name without its organisation; the variables, in order.
cached lab--tiny-encoder 0123abcd
snapshot=$HF_HUB_CACHE/models--lab--tiny-encoder/snapshots/0123abcd
run "${train[@]}" --config config.json
expect_code 0
expect_text "$err" "primary: loaded 23 tensors" "from $snapshot"
for mesh in "--pp-size 2" "--shard zero3"; do # a rank has some of the tensors, and knows of all
    run "${train[@]}" --config config.json --nproc-per-node 2 $mesh
    expect_code 0
    expect_text "$err" "primary: loaded 23 tensors"
    expect "$mesh: no tensor is taken for unknown" bash -c "! grep -q 'ignored' '$err'"
done
echo a box >text
run tokenize --tokenizer tiny-encoder text
expect_code 0
ids=$(cat "$out")
cached other--tiny-encoder 99
rejects 2 tokenize --tokenizer tiny-encoder
rm -r "$HF_HUB_CACHE/models--other--tiny-encoder"
mkdir -p home xdg/huggingface
cp -r "$HF_HUB_CACHE" home/hub && cp -r "$HF_HUB_CACHE" xdg/huggingface/hub
for place in "HF_HOME=$work/home" "XDG_CACHE_HOME=$work/xdg"; do
    last_command="$place trident tokenize"
    env -u HF_HUB_CACHE -u HF_HOME "$place" "$trident" tokenize --tokenizer lab/tiny-encoder text >"$out" 2>"$err"
    code=$?
    expect_code 0
    expect "the same ids" test "$(cat "$out")" = "$ids"
done
run doctor
expect "the cache in doctor's table" grep -Eq "^models +yes +0 in models, 1 in $HF_HUB_CACHE" "$out"
cp data/train.csv one.csv
run inspect one.csv --tokenizer tiny-encoder --write-config starter.json
expect_code 0
expect_text "$err" "from $snapshot"
expect "the starter trains" test -z "$(grep 'does not train' "$err")"

# ./models before the cache, --models-dir before both.
mkdir -p models/lab mine/lab
cp -r exported/primary models/lab/tiny-encoder && cp -r exported/primary mine/lab/tiny-encoder
run "${train[@]}" --config config.json
expect_text "$err" "from models/lab/tiny-encoder"
run "${train[@]}" --config config.json --models-dir mine
expect_text "$err" "from mine/lab/tiny-encoder"
rm -r models mine

# A revision without refs/main; a snapshot that is gone; a damaged reference.
at=$HF_HUB_CACHE/models--lab--tiny-encoder
rm "$at/refs/main"
run tokenize --tokenizer lab/tiny-encoder text
expect_code 0
printf 'ffff\n' >"$at/refs/main"
rejects 66 "${train[@]}" --config config.json
printf '../..' >"$at/refs/main"
rejects 65 "${train[@]}" --config config.json
printf '0123abcd' >"$at/refs/main"

# Incomplete: weights that are missing, or a link to nothing; a pickle alone.
mv "$at/blobs/model.safetensors.0123abcd" kept
rejects 66 "${train[@]}" --config config.json
mkdir -p "$HF_HUB_CACHE/models--bert-large-cased/refs" models && cp -r exported/primary models/bert-base-cased
rejects 66 plan --config config.json --primary-tokenizer bert-large-cased # rather than the vocabulary of another
rm -r models "$HF_HUB_CACHE/models--bert-large-cased"
rm "$snapshot/model.safetensors"
rejects 66 "${train[@]}" --config config.json
run plan --config config.json --data-path data
expect_code 0
for pickle in pytorch_model.bin pytorch_model.bin.index.json; do
    echo x >"$snapshot/$pickle"
    rejects 2 "${train[@]}" --config config.json
    rm "$snapshot/$pickle"
done
cp kept "$snapshot/model.safetensors"

# Weights and config.json disagree.
rm "$snapshot/config.json"
for change in hidden_size=16 num_hidden_layers=2 vocab_size=9000 intermediate_size=60; do
    key=${change%=*}
    sed "s/\"$key\": [0-9]*/\"$key\": ${change#*=}/" exported/primary/config.json >"$snapshot/config.json"
    rejects 65 "${train[@]}" --config config.json
done
run "${train[@]}" --config config.json --nproc-per-node 2 --pp-size 2
expect_code 65
expect_text "$err" "has shape [64, 32], the model's 'primary.encoder.layer.0.intermediate.dense.weight' has [60, 32]"
finish
