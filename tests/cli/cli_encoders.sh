# Encoder families from the command line: each is trained, exported and read again; what is not supported is refused by
# its name, weights that do not fit the configuration by tensor and shapes.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
train() { # train CONFIG OUTPUT
    echo train --config "$1" --data-path data --output-dir "$2" --max-steps 1 --epochs 1 --batch-size 16 --threads 1
}
# only MEMBERS...: encoder.json, a model with one text.
only() {
    make_config encoder.json '"tab_field_list": []' '"max_sen_len": 24' "$@"
    grep -v secondary_ encoder.json >one.json && mv one.json encoder.json
}

# The family; sizes under its own keys; a key and another value of it, with which a tensor has another shape; what draws
# random numbers (below).
sizes='"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 20'
usual='dropout:key1 ctx:key1 norm1.dropout:key1 norm2.dropout:key1'
families=(
    "distilbert|\"dim\": 16, \"n_heads\": 2, \"n_layers\": 2, \"hidden_dim\": 20, "`
        `"\"max_position_embeddings\": 30|hidden_dim|22|"`
        `"dropout:key1 ctx:key1 norm2.dropout:key1"
    "electra|$sizes, \"embedding_size\": 12, \"max_position_embeddings\": "`
        `"30|embedding_size|10|$usual"
    "xlm-roberta|$sizes, \"max_position_embeddings\": "`
        `"30|intermediate_size|22|$usual"
    "mpnet|$sizes, \"max_position_embeddings\": "`
        `"30|relative_attention_num_buckets|40|$usual"
    "deberta-v2|$sizes, \"max_position_embeddings\": 30, \"relative_attention\": true, \"position_buckets\": "`
        `"8, \"norm_rel_ebd\": \"layer_norm\", \"share_att_key\": true, \"pos_att_type\": [\"p2c\", \"c2p\"], "`
        `"\"position_biased_input\": false, \"type_vocab_size\": "`
        `"0|position_buckets|16|"`
        `"dropout:key1 distances.dropout:keyd1 ctx:key1 norm1.dropout:key1 norm2.dropout:key1"
    "modernbert|$sizes, \"pad_token_id\": 0, \"local_attention\": 8, \"embedding_dropout\": 0.1, "`
        `"\"attention_dropout\": 0.1, \"mlp_dropout\": 0.1, \"max_position_embeddings\": "`
        `"30|intermediate_size|22|"`
        `"dropout:key1 ctx:key1 attn.dropout:key1 gated.dropout:key1"
)
# What the second text's embeddings and first layer write with random numbers, and by which keys.
drawn() {
    sed -nE 's/^[0-9]+ [a-z_]+ +secondary\.(embeddings|layer\.0)\.([a-z0-9.]+).* (key[a-z]*[01]).* p=.*/\2:\3/p' "$out"
}
for row in "${families[@]}"; do
    IFS='|' read -r family keys key value drops <<<"$row"
    only "\"primary_encoder\": {\"model_type\": \"$family\", $keys}"
    run $(train encoder.json "$family-run")
    expect_code 0
    run export --checkpoint "$family-run" --output-dir "$family-export"
    expect_code 0
    expect_text "$family-export/primary/config.json" "\"model_type\": \"$family\""
    for how in 'true 7 --pp-size 7' 'false 6 --pp-size 6'; do # stages end within encoders, and after them
        set -- $how
        make_config two.json "\"primary_encoder\": {\"model_type\": \"$family\", $keys}" "\"share_encoders\": $1" \
            "\"secondary_encoder\": {\"model_type\": \"$family\", $keys}" '"max_sen_len": 24'
        run plan --config two.json --data-path data --world-size "${@:2}" --check
        expect_code 0
    done
    run plan --config two.json --data-path data --print-after forward
    expect "dropout is where transformers has it" test "$(drawn | paste -sd' ')" = "$drops"
    only "\"primary_tokenizer\": \"$work/$family-export/primary\"" '"primary_encoder": {}'
    run $(train encoder.json "$family-again")
    expect_code 0
    expect_text "$err" "primary: loaded"
    expect "its own tensors are read" grep -q "newly initialised [24]:.* projection.weight, projection.bias" "$err"
    sed "s/\"$key\": *[0-9]*/\"$key\": $value/" "$family-export/primary/config.json" >changed.json
    mv changed.json "$family-export/primary/config.json"
    rejects 65 $(train encoder.json "$family-wrong") --quiet
done

# Other families, and values that are not supported: by name, before anything is read.
only '"primary_encoder": {"model_type": "t5"}'
rejects 2 $(train encoder.json other)
value() { # value FAMILY KEY VALUE: not supported
    only "\"primary_encoder\": {\"model_type\": \"$1\", \"$2\": $3}"
    rejects 2 $(train encoder.json other)
}
value bert hidden_act '"quick_gelu"'
value bert is_decoder true
value electra position_embedding_type '"relative_key"'
value modernbert hidden_activation '"mish"'
value deberta-v2 conv_kernel_size 3
finish
