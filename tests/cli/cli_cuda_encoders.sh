# cli_cuda_encoders.sh - every family of encoders, and columns as vectors, on a GPU through the command: with heads of
# 64 columns and texts of several tiles of attention, in fp32 and in bf16 each follows the same run on the CPU in fp32,
# and has the same bits twice. All steps have as many tokens, so that they are replayed from graphs. Skipped, with the
# reason, without a GPU.
# timeout: 240
. "$(dirname "$0")/../lib/cli_lib.sh"
"$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }
make_all
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
common=(--data-path data --batch-size 96 --epochs 10 --threads 4 --quiet)
most_beside=3

# Texts of 10 to 170 tokens.
for part in train valid test; do
    awk 'NR == 1 { print; next } {
        rest = $0; text = ""; sub(/^"[^"]*",/, "", rest); split($0, half, "\"")
        for (k = 0; k <= NR * 7 % 18; k++) text = text " " half[2]
        printf "\"%s\",%s\n", text, rest
    }' data/$part.csv >long.csv
    mv long.csv data/$part.csv
done


sizes='"hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 3, "intermediate_size": 192, '
sizes+='"max_position_embeddings": 200'
families=(
    "bert|$sizes"
    'distilbert|"dim": 128, "n_heads": 2, "n_layers": 3, "hidden_dim": 192, "max_position_embeddings": 200'
    "electra|$sizes, \"embedding_size\": 64, \"hidden_act\": \"gelu_new\""
    "xlm-roberta|$sizes, \"hidden_act\": \"silu\""
    "modernbert|$sizes, \"pad_token_id\": 0, \"local_attention\": 48, \"global_attn_every_n_layers\": 2"
    "mpnet|$sizes"
    "deberta-v2|$sizes, \"type_vocab_size\": 0, \"relative_attention\": true, \"position_buckets\": 32, \
\"max_relative_positions\": 100, \"norm_rel_ebd\": \"layer_norm\", \"share_att_key\": true, \
\"pos_att_type\": [\"p2c\", \"c2p\"], \"position_biased_input\": false"
)
each() { # each NAME: NAME.json on the CPU, on the GPU, and on the GPU again
    local family=$1 precision off own=(--config "$1.one.json" "${common[@]}")
    grep -v secondary_ "$family.json" >"$family.one.json"
    run train "${own[@]}" --device cpu --output-dir "$family-cpu"
    expect_code 0
    for precision in fp32:1e-4 bf16:2e-2; do
        run train "${own[@]}" --device cuda --precision "${precision%:*}" --output-dir "$family-${precision%:*}"
        expect_code 0
        off=$(apart "$family-cpu" "$family-${precision%:*}")
        expect "$family, ${precision%:*}: losses differ by $off" is "$off" '<=' "${precision#*:}"
    done
    run train "${own[@]}" --device cuda --precision bf16 --output-dir "$family-again"
    expect_code 0
    expect "$family: the same bits twice" cmp -s <(losses "$family-bf16") <(losses "$family-again")
}
for row in "${families[@]}"; do
    IFS='|' read -r family keys <<<"$row"
    make_config "$family.json" "\"primary_encoder\": {\"model_type\": \"$family\", $keys}" '"max_sen_len": 180'
    beside each "$family"
done
for form in piecewise periodic; do
    make_config "$form.json" '"tabular": "embedded"' "\"numeric_embedding\": \"$form\"" '"cat_field_list": ["size"]' \
        '"fusion": "gated"' '"max_sen_len": 180' '"primary_encoder": {"model_type": "bert", '"$sizes}"
    beside each $form
done
finish
