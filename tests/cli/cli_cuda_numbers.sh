# cli_cuda_numbers.sh - numbers and several labels as what is learned, and rows of different weight, on a GPU: the
# losses of the same runs on the CPU. Skipped, with the reason, without a GPU.
. "$(dirname "$0")/../lib/cli_lib.sh"
"$trident" doctor | grep -q '^cuda *yes' || { "$trident" doctor | grep '^cuda'; exit 77; }
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
make_model model
mkdir -p prices
for part in train:256:0 valid:64:256 test:64:320; do
    IFS=: read -r name rows first <<<"$part"
    awk -v rows="$rows" -v first="$first" 'BEGIN {
        print "text,weight,count,price,good,even"
        for (i = first; i < first + rows; i++) {
            good = (i * 7 + int(i / 3)) % 2
            printf "the box was %s,%d,%d,%.2f,%d,%s\n", good ? "good" : "bad", i * 13 % 50, 1 + i % 3, \
                100 + 40 * good + 2 * (i * 13 % 50) + (i * 7919 % 1000) / 200, good, i % 5 ? i % 2 : ""
        }
    }' >"prices/$name.csv"
done
make_config config.json '"tab_field_list": ["weight"]'
sed -i 's/"label_name": "label",//; /"secondary_\|"is_binary"\|"num_classes"/d' config.json
common=(--config config.json --data-path prices --global-batch-size 16 --epochs 1 --threads 4 --quiet)
most_beside=3

each() { # each NAME OPTIONS...: on the CPU, on the GPU in fp32, and in bf16 near both
    local name=$1
    shift
    run train "${common[@]}" "$@" --device cpu --output-dir "$name-cpu"
    expect_code 0
    run train "${common[@]}" "$@" --device cuda --output-dir "$name-gpu"
    expect_code 0
    losses_near "$name-cpu" "$name-gpu" 1e-5 "$name: the GPU's losses"
    run train "${common[@]}" "$@" --device cuda --precision bf16 --output-dir "$name-bf16"
    expect_code 0
    losses_near "$name-cpu" "$name-bf16" 2e-2 "$name: bf16"
}
numbers=(--task regression --label-name price)
beside each classes --label-name good
beside each classes-weighted --label-name good --weight-name count
for loss in squared absolute huber; do beside each $loss "${numbers[@]}" --loss $loss; done
beside each poisson "${numbers[@]}" --loss poisson --target-transform log
beside each weighted "${numbers[@]}" --weight-name count
beside each quantiles --task quantiles --label-name price --quantiles 0.1,0.5,0.9
beside each quantiles-weighted --task quantiles --label-name price --quantiles 0.1,0.9 --weight-name count
beside each labels --task multilabel --label-name good,even --class-weights 1,2
finish
