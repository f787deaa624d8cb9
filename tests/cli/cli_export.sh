# Export: folders that other tools open, and that eval, predict and a new run accept; existing files are never
# overwritten.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all

run train --config config.json --data-path data --output-dir run --max-steps 6 --batch-size 16 --seed 1 --threads 1 \
    --nproc-per-node 2 --shard zero3
expect_code 0
checked run export --checkpoint run --output-dir exported --json
expect_code 0
expect_text "$out" '"output_dir":"exported"' '"encoders":2'
for file in model.safetensors config.json preprocessing.json manifest.json README.md; do
    expect "exported/$file" test -s "exported/$file"
done
for branch in primary secondary; do
    for file in model.safetensors config.json vocab.txt tokenizer_config.json; do
        expect "$branch/$file" test -s "exported/$branch/$file"
    done
    expect_text exported/$branch/config.json '"model_type": "bert"' '"architectures"'
    expect "$branch has Hugging Face's names" grep -aq '"encoder.layer.0.attention.self.query.weight"' \
        "exported/$branch/model.safetensors"
    expect "$branch has no head" test -z "$(head -c 20000 "exported/$branch/model.safetensors" | grep -ao projection)"
done
expect "no temporary folder is left" test -z "$(find . -name '.trident-*')"
expect_text exported/README.md text track "6 training steps" AutoModel

# The same answers.
run predict --checkpoint run --data-path data/test.csv -o before.csv
run predict --checkpoint exported --data-path data/test.csv -o after.csv
expect_code 0
expect "an export predicts what its checkpoint does" cmp -s before.csv after.csv
run eval --checkpoint exported --data-path data/test.csv --json
expect_code 0
run checkpoint verify exported
expect_code 0

# A new run begins with its weights: at step 1, of a model whose loss is not that of random weights.
run train --config config.json --data-path data --output-dir again --resume exported --max-steps 2 --batch-size 16 \
    --seed 1 --threads 1
expect_code 0
expect_text "$err" "beginning a new run with the weights of exported"
expect "it counts from step 1" test "$(sed -n 's/.*"event": *"train", *"step": *\([0-9]*\).*/\1/p' again/metrics.jsonl |
    head -n 1)" = 1

# Texts that share an encoder: one folder for both, half the weights; other meshes go on from its checkpoints.
run train --config config.json --data-path data --output-dir shared --max-steps 4 --batch-size 16 --seed 1 --threads 1 \
    --share-encoders true --nproc-per-node 2 --pp-size 2 --save-steps 2
expect_code 0
expect_text "$err" "both texts share one encoder, the primary one"
run export --checkpoint shared --output-dir one
expect_code 0
expect_text "$err" "primary/ is the encoder of both texts"
expect "there is no other encoder" test -s one/primary/model.safetensors -a ! -e one/secondary
run predict --checkpoint shared --data-path data/test.csv -o before.csv --force
run predict --checkpoint one --data-path data/test.csv -o after.csv --force --nproc-per-node 2
expect_code 0
expect "a shared encoder's export predicts what its checkpoint does" cmp -s before.csv after.csv
cp -r shared moved && rm -r moved/checkpoint-4
run train --config config.json --data-path data --output-dir moved --max-steps 4 --batch-size 8 --seed 1 --threads 1 \
    --share-encoders true --nproc-per-node 2 --shard zero3
expect_code 0
last() { sed -n 's/.*"step": *4,.*"loss": *\([0-9.e-]*\).*/\1/p' "$1/metrics.jsonl" | head -n 1; }
expect "replicas go on from stages" awk "BEGIN { d = $(last shared) - $(last moved); exit !(d * d <= 4e-12) }"
bytes() { # of parameters, gradients and optimizer state
    "$trident" plan --config config.json --share-encoders "$1" 2>"$err" | tr -d , |
        awk '/^(parameters|gradients|optimizer state)/ { sum += /^optimizer/ ? $3 : $2 } END { print sum }'
}
expect "two encoders have twice the weights" awk "BEGIN { exit !($(bytes false) > 1.85 * $(bytes true)) }"
rejects 2 train --config config.json --data-path data --share-encoders true --secondary-tokenizer other
make_config bad.json '"share_encoders": true' '"secondary_encoder": {"model_type": "bert", "hidden_size": 16}'
rejects 2 train --config bad.json --data-path data

# An encoder's folder is one for a new model.
sed 's,"primary_tokenizer": *"[^"]*","primary_tokenizer": "'"$work"'/exported/primary",' config.json >reuse.json
run train --config reuse.json --data-path data --output-dir reused --max-steps 1 --batch-size 16
expect_code 0
expect_text "$err" "primary: loaded"

# Whatever kind of folder a run starts from, the export has what gives its ids to others: one tokenizer_config.json
# with the class, the switches and every added token, beside the vocabulary as it was.
make_json() { # tokenizer.json of model/vocab.txt: make_json FOLDER LOWERCASE
    mkdir -p "$1"
    {
        printf '{"normalizer": {"type": "BertNormalizer", "lowercase": %s},' "$2"
        printf '"pre_tokenizer": {"type": "BertPreTokenizer"},'
        printf '"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},'
        printf '"added_tokens": [],'
        printf '"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": {'
        awk '{ printf "%s\"%s\": %d", (NR > 1 ? ", " : ""), $0, NR - 1 }' model/vocab.txt
        printf '}}}'
    } >"$1/tokenizer.json"
}
pieces=$(wc -l <model/vocab.txt)
make_json cased false
echo '{"do_lower_case": false, "truncation_side": "left"}' >cased/tokenizer_config.json
echo '{"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1,' \
    '"num_attention_heads": 2, "intermediate_size": 64}' >cased/config.json
make_json alone false
mkdir -p beside
cp model/vocab.txt beside
echo '{"additional_special_tokens": ["<x>"], "mask_token": {"content": "[MASK]", "lstrip": true}}' \
    >beside/special_tokens_map.json
echo "{\"<y>\": $pieces}" >beside/added_tokens.json
mkdir -p unigram
{
    printf '{"normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "Lowercase"}]},'
    printf '"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},'
    printf '"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},'
    printf '"model": {"type": "Unigram", "unk_id": 1, "vocab": ['
    awk '!/^##/ { word = (length($0) > 1 && NR > 5 ? "▁" : "") $0
        printf "%s[\"%s\", %.7g]", (NR > 1 ? ", " : ""), word, -NR / 7 }' model/vocab.txt
    printf ']}}'
} >unigram/tokenizer.json
echo 'The Box was <y> late <x> BAD  [MASK]' >words.txt
for kind in cased alone beside unigram; do
    sed 's,"primary_tokenizer": *"[^"]*","primary_tokenizer": "'"$work/$kind"'",' config.json >kind.json
    run train --config kind.json --data-path data --output-dir run-$kind --max-steps 1 --batch-size 16 --seed 1
    expect_code 0
    run export --checkpoint run-$kind --output-dir export-$kind
    expect_code 0
    run tokenize --tokenizer "$kind" words.txt --max-len 7
    cp "$out" ids.txt
    run tokenize --tokenizer export-$kind/primary words.txt --max-len 7
    expect "$kind: the export gives the ids of the training" cmp -s ids.txt "$out"
done
expect_text export-cased/primary/tokenizer_config.json '"do_lower_case": false' '"tokenizer_class": "BertTokenizer"' \
    '"truncation_side": "left"'
expect_text export-alone/primary/tokenizer_config.json '"tokenizer_class": "PreTrainedTokenizerFast"'
expect_text export-beside/primary/tokenizer_config.json '"<x>"' '"<y>"' "\"$((pieces + 1))\"" '"lstrip": true' \
    '"do_lower_case": true'
for kind in cased alone unigram; do
    expect "$kind: tokenizer.json as it was" cmp -s $kind/tokenizer.json export-$kind/primary/tokenizer.json
done
mv unigram elsewhere
run predict --checkpoint run-unigram --data-path data --output unigram.csv
expect_code 0
expect "a checkpoint has its vocabulary with it" test "$(wc -l <unigram.csv)" = 41
sed "s,$work/unigram,$work/model,; s,\"model_type\": \"bert\",\"model_type\": \"roberta\"," kind.json >odd.json
run train --config odd.json --data-path data --output-dir odd --max-steps 1 --batch-size 16
expect_code 0
expect_text "$err" 'pad_token_id 1 is "[UNK]"' "not trained"
rm cased/tokenizer_config.json
rejects 2 tokenize --tokenizer cased words.txt

# Nothing is overwritten; errors say what.
rejects 73 export --checkpoint run --output-dir exported
mkdir empty
run export --checkpoint run --output-dir empty
expect_code 0
rejects 66 export --checkpoint nowhere --output-dir other
expect "a refused export leaves nothing" test ! -e other
printf x >>exported/model.safetensors
rejects 65 eval --checkpoint exported --data-path data/test.csv
finish
