# inputs.sh - what the cases of tests/frozen read: tables, a tokenizer folder and configurations, made in the present
# folder. Nothing of it is shared with other tests: when those change, the recorded values must not.

vocabulary() {
    mkdir -p model
    {
        printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'
        printf '%s\n' good bad fine late early box lost found the was is it and not very . ,
        printf '%s\n' a b c d e f g h i j k l m n o p q r s t u v w x y z
        printf '##%s\n' a b c d e f g h i j k l m n o p q r s t u v w x y z
    } >model/vocab.txt
    echo '{"do_lower_case": true}' >model/tokenizer_config.json
}

# table FILE ROWS FIRST: two texts of 5 to 70 words, a second one, numbers with gaps, a category, two labels.
table() {
    awk -v rows="$2" -v first="$3" 'BEGIN {
        n = split("good bad fine late early box lost found the was is it and not very", word, " ")
        print "text,track,size,weight,kind,label,grade"
        for (i = first; i < first + rows; i++) {
            y = (i * 7 + int(i / 3)) % 2; line = y ? "bad" : "good"; more = y ? "lost" : "found"
            for (j = 0; j < 4 + i * 37 % 61; j++) line = line " " word[1 + (i * 7 + j * 3 + int(j * j / 5)) % n]
            for (j = 0; j < 2 + i * 11 % 23; j++) more = more " " word[1 + (i * 5 + j) % n]
            printf "%s,%s,%s,%.2f,%s,%d,%s\n", line, more, i % 13 ? i % 11 : "", (i % 17) / 4,
                substr("redbluegrn", 1 + i % 4, 3), y, substr("lowmidtop", 1 + 3 * (int(i / 2) % 3), 3)
        } }' >"$1"
}

# config NAME [JSON MEMBERS...]: NAME.json; a later member wins over an earlier one of the same key.
config() {
    local name=$1
    shift
    printf '%s\n' '"label_name": "label"' '"primary_text_name": "text"' '"secondary_text_name": "track"' \
        '"tab_field_list": ["size", "weight", "kind"]' '"primary_tokenizer": "./model"' \
        "\"primary_encoder\": {$bert}" "\"secondary_encoder\": {$bert}" '"hidden_common_dim": 16' \
        '"fusion_hidden_dim": 16' '"fusion_dropout": 0.1' '"max_sen_len": 48' "$@" | awk -F: '
        { if (!($1 in at)) order[++n] = $1; at[$1] = $0 }
        END { printf "{"; for (i = 1; i <= n; i++) printf "%s%s", (i > 1 ? ",\n " : ""), at[order[i]]; print "}" }' \
            >"$name.json"
}
encoders() { # encoders NAME KEYS [MEMBERS...]: both encoders have these keys
    local name=$1 keys=$2
    shift 2
    config "$name" "\"primary_encoder\": {$keys}" "\"secondary_encoder\": {$keys}" "$@"
}

make_inputs() {
    local rest='"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48' size
    size="$rest, \"num_hidden_layers\": 3"
    local places='"max_position_embeddings": 80' pattern family act
    local bert='"model_type": "bert", '"$size, $places"
    mkdir -p data
    vocabulary
    table data/train.csv 64 0
    table data/valid.csv 24 64
    table data/test.csv 20 88

    config base
    config still '"fusion_dropout": 0' \
        "\"primary_encoder\": {$bert, \"hidden_dropout_prob\": 0, \"attention_probs_dropout_prob\": 0}" \
        "\"secondary_encoder\": {$bert, \"hidden_dropout_prob\": 0, \"attention_probs_dropout_prob\": 0}"
    encoders deep "\"model_type\": \"bert\", $rest, $places, \"num_hidden_layers\": 4"
    encoders wide "\"model_type\": \"bert\", \"hidden_size\": 128, \"num_hidden_layers\": 3, $places, "`
        `'"num_attention_heads": 4, "intermediate_size": 256'
    for family in bert roberta xlm-roberta mpnet; do
        encoders $family "\"model_type\": \"$family\", $size, $places"
    done
    encoders electra "\"model_type\": \"electra\", $size, $places, \"embedding_size\": 12"
    encoders distilbert '"model_type": "distilbert", "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, '`
        `"$places"
    encoders modernbert "\"model_type\": \"modernbert\", $size, $places, \"pad_token_id\": 0, \"local_attention\": 8, "`
        `'"embedding_dropout": 0.1, "attention_dropout": 0.1, "mlp_dropout": 0.1, "global_attn_every_n_layers": 2'
    local deberta="\"model_type\": \"deberta-v2\", $size, $places, \"relative_attention\": true, "`
        `'"position_buckets": 8, "norm_rel_ebd": "layer_norm", "position_biased_input": false, '`
        `'"type_vocab_size": 0, "share_att_key": true'
    encoders deberta "$deberta, \"pos_att_type\": [\"p2c\", \"c2p\"]"
    encoders deberta-c2p "$deberta, \"pos_att_type\": [\"c2p\"]"
    for act in gelu gelu_new relu silu; do encoders act-$act "$bert, \"hidden_act\": \"$act\""; done
    for act in gelu relu silu; do
        encoders gated-$act "\"model_type\": \"modernbert\", $size, $places, \"pad_token_id\": 0, "`
            `"\"hidden_activation\": \"$act\""
    done

    while IFS='|' read -r family pattern; do
        encoders sparse-$family "$bert, \"attention_pattern\": {\"block\": 16, $pattern}" '"max_sen_len": 80'
    done <<'ROWS'
window|"mode": "window", "window": 32
longformer|"mode": "longformer", "window": 16, "global_tokens": 16
strided|"mode": "strided", "window": 16, "stride": 32
offsets|"mode": "offsets", "offsets": [-1, 0]
fixed|"mode": "fixed", "num_local_blocks": 2, "different_layout_per_head": true
variable|"mode": "variable", "num_random_blocks": 1, "local_window_blocks": [1, 2]
bigbird|"mode": "bigbird", "different_layout_per_head": true
bslongformer|"mode": "bslongformer"
ROWS
    config experts \
        "\"primary_encoder\": {$bert, \"num_experts\": 4, \"experts_per_token\": 2, \"expert_layers\": [0]}" \
        "\"secondary_encoder\": {$bert, \"num_experts\": 2, \"expert_capacity_factor\": 0.75}"

    config one-text '"tab_field_list": []'
    grep -v secondary_ one-text.json >one && mv one one-text.json
    config no-table '"tab_field_list": []'
    config shared '"share_encoders": true'
    config pool-cls '"pooling": "cls"'
    config pool-mean '"pooling": "mean"'
    config gated '"fusion": "gated"'
    config embedded '"tabular": "embedded"' '"column_dim": 4' '"numeric_bins": 5'
    config periodic '"tabular": "embedded"' '"numeric_embedding": "periodic"' '"numeric_frequencies": 6' \
        '"column_dim": 4' '"fusion": "gated"'
    config numbers '"numeric_transform": "quantile_normal"' '"numeric_missing": "mean"' '"cat_field_list": ["size"]'
    config classes '"label_name": "grade"' '"is_binary": false' '"num_classes": 3' '"class_weights": "balanced"'
    config windows '"max_sen_len": 16' '"windows": 3' '"stride": 8'
}
