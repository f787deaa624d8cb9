# Every invalid input ends with its exit code and a message that names the position and the remedy.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
train() {
    echo train --config "${1:-config.json}" --data-path "${2:-data}" --output-dir out --max-steps 2 --epochs 1 --quiet
}

# Flags.
rejects 2 $(train) --lerning-rate 1
rejects 2 $(train) --bach-size 4
rejects 2 $(train) --zzzzzz 4
rejects 2 train --epochs
rejects 2 $(train) --epochs many
rejects 2 $(train) --batch-size 0
rejects 2 $(train) --precision int8
rejects 2 $(train) --print-program 0
rejects 2 $(train) surplus
rejects 2 train --data-path data
rejects 2 train --config config.json --output-dir out
rejects 2 eval --data-path data
rejects 2 predict --checkpoint out
rejects 2 digest
rejects 2 plan

# What this build cannot give is refused, never replaced.
rejects 2 $(train) --pp-size 2
rejects 2 $(train) --tp-size 2
rejects 2 $(train) --dp-size 4
rejects 2 $(train) --shard hybrid --shard-size 3 --nproc-per-node 4
rejects 2 $(train) --offload state
[ -e /dev/nvidia0 ] || refuses 2 "device" -- $(train) --device cuda # where there is a GPU it is no wrong input
make_config ranks.json '"pp_size": 4' '"dp_size": 4'
rejects 2 $(train ranks.json)

# The configuration file.
rejects 66 $(train missing.json)
echo '{"label_name": "label",' >torn.json
rejects 2 $(train torn.json)
make_config unknown.json '"primary_text_nam": "text"'
checked rejects 2 $(train unknown.json)
make_config type.json '"hidden_common_dim": "wide"'
rejects 2 $(train type.json)
make_config binary.json '"num_classes": 3'
rejects 2 $(train binary.json)
make_config weights.json '"class_weights": [1.0, 2.0, 3.0]'
checked rejects 2 $(train weights.json)
make_config folder.json '"primary_tokenizer": "no-such-model"'
rejects 66 $(train folder.json)
mkdir -p models
checked rejects 66 $(train folder.json) --models-dir models
heads='"hidden_size": 30, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32'
heads+=', "max_position_embeddings": 64'
make_config heads.json '"primary_encoder": {'"$heads"'}'
rejects 2 $(train heads.json)
make_config long.json '"max_sen_len": 500'
rejects 2 $(train long.json)

# Data. A file:line:column counts from 1; lines are those of an editor.
rejects 66 $(train config.json nowhere)
make_config column.json '"primary_text_name": "txt"'
rejects 65 $(train column.json)
make_config field.json '"tab_field_list": ["size", "height"]'
rejects 65 $(train field.json)
table() { # table NAME LINE: the training table with its fourth line replaced
    mkdir -p "$1"
    cp data/valid.csv "$1"
    awk -v line="$2" 'NR == 4 { print line; next } { print }' data/train.csv >"$1/train.csv"
}
table number 'a box,late,heavy,1.5,0'
checked rejects 65 $(train config.json number)
table label 'a box,late,1,1.5,7'
rejects 65 $(train config.json label)
table nolabel 'a box,late,1,1.5,'
rejects 65 $(train config.json nolabel)
table ragged 'a box,late,1,1.5'
rejects 65 $(train config.json ragged)
table wide 'a box,late,1,1.5,0,9'
rejects 65 $(train config.json wide)
mkdir -p quote && { head -n 3 data/train.csv && echo '"a box,late,1,1.5,0'; } >quote/train.csv
rejects 65 $(train config.json quote)
mkdir -p empty && : >empty/train.csv
rejects 65 $(train config.json empty)
mkdir -p bare && head -n 1 data/train.csv >bare/train.csv
rejects 65 $(train config.json bare)

# Tables that are none are named as what they are; stdin is refused by its name.
mkdir -p packed
gzip -c data/train.csv >packed/train.csv
rejects 65 $(train config.json packed)
bzip2 -c data/train.csv >packed/train.csv.bz2 2>/dev/null || : >packed/train.csv.bz2
rm packed/train.csv
rejects 66 $(train config.json packed)
printf 'PAR1xxxx' >table.par
rejects 65 $(train config.json table.par)
printf '[{"text": "a", "label": 1}]' >table.json
rejects 65 inspect table.json
sed '3s/box/b\xf6x/' data/train.csv >latin.csv
rejects 65 $(train config.json latin.csv)
rejects 2 $(train config.json -)
rejects 2 $(train config.json /dev/zero)
rejects 2 $(train) --separator x
printf 'text,track;label\na,b;0\nc,d;1\n' >unclear.csv
rejects 65 inspect unclear.csv

# Nothing above got as far as a checkpoint.
expect "no checkpoint from wrong input" test -z "$(ls -d out/checkpoint-* 2>/dev/null)"

# Checkpoints.
rejects 66 digest nowhere
rejects 66 eval --checkpoint nowhere --data-path data
run $(train)
expect_code 0
checkpoint=$(ls -d out/checkpoint-*)
rejects 65 predict --checkpoint out --data-path "$(sed 's/^text,/txt,/' data/test.csv >renamed.csv; echo renamed.csv)"
rejects 66 eval --checkpoint out --data-path missing.csv
cp -r "$checkpoint" broken
printf x | dd of=broken/weights-00000.safetensors bs=1 seek=2000 conv=notrunc 2>/dev/null
rejects 65 digest broken
cp -r "$checkpoint" cut
truncate -s 1000 cut/weights-00000.safetensors
checked rejects 65 eval --checkpoint cut --data-path data
rejects 74 predict --checkpoint out --data-path data/test.csv -o no/such/folder/out.csv --quiet
finish
