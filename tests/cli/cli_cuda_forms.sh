# cli_cuda_forms.sh - further forms of the model on a GPU: names as hashed n-grams, used as they are and as vectors;
# four texts of one encoder; layers of attention over texts and columns. The losses of the same runs on the CPU.
# Skipped, with the reason, without a GPU.
. "$(dirname "$0")/../lib/cli_lib.sh"
"$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
make_model model
mkdir -p goods
for part in train:256:0 valid:64:256; do
    IFS=: read -r name rows first <<<"$part"
    awk -v rows="$rows" -v first="$first" 'BEGIN {
        print "text,note,more,last,brand,kind,weight,label"
        for (i = first; i < first + rows; i++) {
            y = (i * 7 + int(i / 3)) % 2
            printf "the box was %s,it is f,box %s,and the,%s%s-%d,%s,%d,%d\n", i % 3 ? "good" : "bad",
                y ? "late" : "early", substr("kasomuriteno", 1 + 2 * (i % 6), 2), y ? "ova" : "ion", i % 9,
                i % 4 ? "new" : "used", i * 13 % 50, y
        }
    }' >"goods/$name.csv"
done
keys=('"secondary_text_name": "note"' '"tab_field_list": ["weight", "kind", "brand"]' '"hidden_common_dim": 32'
    '"hashed_field_list": ["brand"]' '"numeric_bins": 8')
make_config plain.json "${keys[@]}"
make_config embedded.json "${keys[@]}" '"tabular": "embedded"'
make_config fusion.json "${keys[@]}" '"fusion": "columns"'
make_config texts.json "${keys[@]}" '"text_list": ["text", "note", "more", "last"]'
sed -i '/"secondary_\|"primary_text_name"/d' texts.json
most_beside=3

each() { # each NAME: on the CPU, on the GPU in fp32, and in bf16 near both
    local common=(--config "$1.json" --data-path goods --global-batch-size 16 --max-steps 8 --lr 3e-4 --quiet)
    run train "${common[@]}" --device cpu --output-dir "$1-cpu"
    expect_code 0
    run train "${common[@]}" --device cuda --output-dir "$1-gpu"
    expect_code 0
    losses_near "$1-cpu" "$1-gpu" 1e-5 "$1: the GPU's losses"
    run train "${common[@]}" --device cuda --precision bf16 --output-dir "$1-bf16"
    expect_code 0
    losses_near "$1-cpu" "$1-bf16" 2e-2 "$1: bf16"
    run predict --checkpoint "$1-gpu" --data-path goods/valid.csv --device cuda --quiet -o "$1-gpu.csv"
    expect_code 0
}
for form in plain embedded fusion texts; do beside each "$form"; done
finish
