# Every invalid input ends with its exit code and a message that names the position and the remedy.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
train() {
    echo train --config "${1:-config.json}" --data-path "${2:-data}" --output-dir out --max-steps 2 --epochs 1 --quiet
}

# Flags.
refuses 2 --lerning-rate --learning-rate -- $(train) --lerning-rate 1
refuses 2 "--batch-size" -- $(train) --bach-size 4
refuses 2 "unknown option --zzzzzz" -- $(train) --zzzzzz 4
refuses 2 "--epochs needs a value" -- train --epochs
refuses 2 "whole number" many -- $(train) --epochs many
refuses 2 "out of range" -- $(train) --batch-size 0
refuses 2 "--precision" "fp32, bf16, fp16 or fp8" -- $(train) --precision int8
refuses 2 "--print-program" "trident train" -- $(train) --print-program 0
refuses 2 "unexpected word" -- $(train) surplus
refuses 2 -- train --data-path data
refuses 2 data -- train --config config.json --output-dir out
refuses 2 --checkpoint -- eval --data-path data
refuses 2 --data-path -- predict --checkpoint out
refuses 2 -- digest
refuses 2 --config -- plan

# What this build cannot give is refused, never replaced.
refuses 2 "1 ranks = pp 2 x tp 1" -- $(train) --pp-size 2
refuses 2 "1 ranks = pp 1 x tp 2" -- $(train) --tp-size 2
refuses 2 "1 ranks asked for, but pp 1 x tp 1 x dp 4 = 4" -- $(train) --dp-size 4
refuses 2 "shard" 3 4 -- $(train) --shard hybrid --shard-size 3 --nproc-per-node 4
refuses 2 "--offload" -- $(train) --offload state
[ -e /dev/nvidia0 ] || refuses 2 "device" -- $(train) --device cuda # where there is a GPU it is no wrong input
make_config ranks.json '"pp_size": 4' '"dp_size": 4'
refuses 2 "1 ranks asked for, but pp 4 x tp 1 x dp 4 = 16" -- $(train ranks.json)

# The configuration file.
refuses 66 missing.json -- $(train missing.json)
echo '{"label_name": "label",' >torn.json
refuses 2 torn.json -- $(train torn.json)
make_config unknown.json '"primary_text_nam": "text"'
checked refuses 2 unknown.json '"primary_text_nam"' '"primary_text_name"' -- $(train unknown.json)
make_config type.json '"hidden_common_dim": "wide"'
refuses 2 type.json hidden_common_dim "whole number" -- $(train type.json)
make_config binary.json '"num_classes": 3'
refuses 2 is_binary num_classes -- $(train binary.json)
make_config weights.json '"class_weights": [1.0, 2.0, 3.0]'
checked refuses 2 class_weights num_classes -- $(train weights.json)
make_config folder.json '"primary_tokenizer": "no-such-model"'
refuses 66 no-such-model -- $(train folder.json)
mkdir -p models
checked refuses 66 no-such-model "models" -- $(train folder.json) --models-dir models
heads='"hidden_size": 30, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32'
heads+=', "max_position_embeddings": 64'
make_config heads.json '"primary_encoder": {'"$heads"'}'
refuses 2 -- $(train heads.json)
make_config long.json '"max_sen_len": 500'
refuses 2 500 64 "--extend-positions copy" -- $(train long.json)

# Data. A file:line:column counts from 1; lines are those of an editor.
refuses 66 nowhere -- $(train config.json nowhere)
make_config column.json '"primary_text_name": "txt"'
refuses 65 '"txt"' text track size weight label -- $(train column.json)
make_config field.json '"tab_field_list": ["size", "height"]'
refuses 65 '"height"' size weight -- $(train field.json)
table() { # table NAME LINE: the training table with its fourth line replaced
    mkdir -p "$1"
    cp data/valid.csv "$1"
    awk -v line="$2" 'NR == 4 { print line; next } { print }' data/train.csv >"$1/train.csv"
}
table number 'a box,late,heavy,1.5,0'
checked refuses 65 'train.csv:4:12' heavy -- $(train config.json number)
table label 'a box,late,1,1.5,7'
refuses 65 'train.csv:4:18' 7 -- $(train config.json label)
table nolabel 'a box,late,1,1.5,'
refuses 65 'train.csv:4:18' -- $(train config.json nolabel)
table ragged 'a box,late,1,1.5'
refuses 65 'train.csv:4' 4 5 -- $(train config.json ragged)
table wide 'a box,late,1,1.5,0,9'
refuses 65 'train.csv:4' 6 5 -- $(train config.json wide)
mkdir -p quote && { head -n 3 data/train.csv && echo '"a box,late,1,1.5,0'; } >quote/train.csv
refuses 65 'train.csv:4:1' -- $(train config.json quote)
mkdir -p empty && : >empty/train.csv
refuses 65 train.csv -- $(train config.json empty)
mkdir -p bare && head -n 1 data/train.csv >bare/train.csv
refuses 65 train.csv -- $(train config.json bare)

# Tables that are none are named as what they are; stdin is refused by its name.
mkdir -p packed
gzip -c data/train.csv >packed/train.csv
refuses 65 "gzip" "mv packed/train.csv packed/train.csv.gz" -- $(train config.json packed)
bzip2 -c data/train.csv >packed/train.csv.bz2 2>/dev/null || : >packed/train.csv.bz2
rm packed/train.csv
refuses 66 "packed" train.csv.bz2 -- $(train config.json packed)
printf 'PAR1xxxx' >table.par
refuses 65 "Parquet" "mv table.par table.parquet" -- $(train config.json table.par)
printf '[{"text": "a", "label": 1}]' >table.json
refuses 65 "one JSON array" "jq -c '.[]' table.json > table.jsonl" -- inspect table.json
sed '3s/box/b\xf6x/' data/train.csv >latin.csv
refuses 65 "latin.csv:3:7: invalid UTF-8 byte 0xf6" "iconv -f LATIN1 -t UTF-8 latin.csv > latin.utf8.csv" \
    -- $(train config.json latin.csv)
refuses 2 "--data-path -" stdin -- $(train config.json -)
refuses 2 /dev/zero "neither a file nor a folder" -- $(train config.json /dev/zero)
refuses 2 "--separator" '"x"' semicolon -- $(train) --separator x
printf 'text,track;label\na,b;0\nc,d;1\n' >unclear.csv
refuses 65 "unclear.csv" "not clear" "--separator" -- inspect unclear.csv

# Nothing above got as far as a checkpoint.
expect "no checkpoint from wrong input" test -z "$(ls -d out/checkpoint-* 2>/dev/null)"

# Checkpoints.
refuses 66 nowhere -- digest nowhere
refuses 66 nowhere -- eval --checkpoint nowhere --data-path data
run $(train)
expect_code 0
checkpoint=$(ls -d out/checkpoint-*)
refuses 65 '"text"' -- predict --checkpoint out \
    --data-path "$(sed 's/^text,/txt,/' data/test.csv >renamed.csv; echo renamed.csv)"
refuses 66 missing.csv -- eval --checkpoint out --data-path missing.csv
cp -r "$checkpoint" broken
printf x | dd of=broken/weights-00000.safetensors bs=1 seek=2000 conv=notrunc 2>/dev/null
refuses 65 weights-00000.safetensors -- digest broken
cp -r "$checkpoint" cut
truncate -s 1000 cut/weights-00000.safetensors
checked refuses 65 weights-00000.safetensors -- eval --checkpoint cut --data-path data
refuses 74 -- predict --checkpoint out --data-path data/test.csv -o no/such/folder/out.csv --quiet
finish
