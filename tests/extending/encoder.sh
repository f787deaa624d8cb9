#!/usr/bin/env bash
# encoder.sh - an encoder whose layers are BERT's, under a model_type, keys of config.json and names of tensors of its
# own: a row of family.c.
most=1

add() {
    row src/model/family.c '    {.type = "modernbert"' '    {.type = "plainbert",
     .architecture = "PlainBertModel",
     .prefix = "plain.",
     .defaults = {COMMON, BASE, .vocab_size = 30522, .num_hidden_layers = 12, .type_vocab_size = 1},
     .keys = (const tri_key_name[]){{"hidden_size", "d_model"}, {"num_hidden_layers", "depth"}, {0}},
     .fixed = bert_fixed,
     .names = &(const tri_layer_names){.layer = "stack.layer.", .query = "att.q", .key = "att.k", .value = "att.v",
                                       .attention = "att.out", .attention_norm = "att.norm", .inner = "mlp.up",
                                       .outer = "mlp.down", .norm = "mlp.norm"}},'
}

use() {
    mkdir plain && cp -r data model plain && cd plain || exit 1
    sed 's/"model_type": "bert", "hidden_size"/"model_type": "plainbert", "d_model"/; s/num_hidden_layers/depth/' \
        ../base.json >base.json
    train one
    train two --nproc-per-node 2 --batch-size 4 --shard zero3
    "$trident" plan --config base.json --world-size 4 --tp-size 2 --pp-size 2 --check >plan.log 2>&1 ||
        { cat plan.log >&2; exit 1; }
    grep -q primary.stack.layer.2.att.q.weight one/checkpoint-2/manifest.json || exit 1
    # An export has its keys; a model that reads it has all of its tensors.
    "$trident" export --checkpoint one --output-dir out --quiet >export.log || exit 1
    for key in '"model_type": "plainbert"' '"PlainBertModel"' '"d_model": 32' '"depth": 3'; do
        grep -q "$key" out/primary/config.json || exit 1
    done
    sed 's|"\./model"|"./out/primary"|; s/"primary_encoder": {.*}/"primary_encoder": {}/' base.json >read.json
    mv read.json base.json
    "$trident" train --config base.json --data-path data --output-dir again --max-steps 1 --epochs 1 --batch-size 8 \
        --no-report >again.log 2>&1 || { cat again.log >&2; exit 1; }
    grep -q 'primary: loaded' again.log && ! grep -q 'primary: .*newly initialised.*layer' again.log || exit 1
    # A key that it does not have is refused with the nearest.
    sed -i 's/"primary_encoder": {}/"primary_encoder": {"d_modle": 16}/' base.json
    "$trident" train --config base.json --data-path data 2>&1 | grep -q 'did you mean "d_model"' || exit 1
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
