# Other programs' files (--deepspeed, --accelerate, --training-arguments): the samples of their documentation in our
# words, runs that take them, and what is refused. Their rows are tested in test_foreign_options.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
cp "${said_before%/messages/*}"/foreign/* .

# translates FILE OPTION LINE...: what `trident plan` says, and that train takes the same line.
translates() {
    local option=$1 file=$2
    run plan "$option" "$file" --quiet
    expect_code 0
    expect "$file is $3, not $(head -n 1 "$out")" test "$(head -n 1 "$out")" = "trident train $3"
    shift 3
    [ $# = 0 ] || expect_text "$out" "not kept:" "$@"
    [ $# -gt 0 ] || expect "all of $file is kept" test "$(wc -l <"$out")" = 1
}
translates --deepspeed ds_zero2_auto.json \
    "--lr-schedule constant --optimizer adamw --shard zero2 --bucket-mb 800 --offload optimizer --log-every 2000"
expect_text "$err" "ds_zero2_auto.json:28: zero_optimization.stage 2 is taken as --shard zero2" \
    "ds_zero2_auto.json:35: zero_optimization.overlap_comm true: the plan bounds"
expect "auto is no option" sh -c "! grep -q auto: '$err'"
translates --deepspeed ds_zero3_auto.json \
    "--lr-schedule linear --optimizer adamw --shard zero3 --offload optimizer,params --log-every 2000"
translates --deepspeed ds_started.json "--global-batch-size 8 --lr 0.00015 --lr-schedule constant --warmup-steps 1000 \
--weight-decay 3e-07 --adam-beta1 0.8 --adam-beta2 0.999 --adam-eps 1e-08 --optimizer adamw --max-grad-norm 1 \
--precision fp16 --shard zero1 --bucket-mb 2000"
translates --accelerate accelerate_default.yaml "--precision bf16 --device cuda --world-size 4"
translates --accelerate accelerate_fsdp.yaml \
    "--precision bf16 --device cuda --world-size 2 --shard zero3 --prefetch 1 --wrap layer"
translates --config_file accelerate_fsdp2.yaml "--precision fp16 --device cpu --world-size 4 --shard zero3 \
--reshard-after-forward no --wrap size --wrap-min-params 100000000 --recompute full --offload params"
translates --accelerate accelerate_deepspeed.yaml "--max-grad-norm 1 --precision fp16 --device cuda --world-size 2 \
--shard zero3 --offload optimizer,params"
translates --accelerate accelerate_megatron.yaml "--num-microbatches 2 --max-grad-norm 1 --precision bf16 \
--device cuda --world-size 4 --pp-size 2 --tp-size 2 --shard zero1 --sequence-parallel yes --recompute selective" \
    "2 accumulated microbatches of how many samples?"
translates --training-arguments training_arguments.json "--output-dir results --batch-size 32 --num-microbatches 4 \
--epochs 3 --lr 5e-05 --lr-schedule linear --best-by loss --warmup-steps 500 --weight-decay 0.01 --adam-beta1 0.9 \
--adam-beta2 0.999 --adam-eps 1e-08 --optimizer adamw --max-grad-norm 1 --precision bf16 --seed 7 --save-every 1 \
--save-steps 500 --keep 2 --shard zero3 --prefetch 1 --recompute full --log-every 500"
run plan --deepspeed ds_onebit.json --world-size 64 --json --quiet
expect_code 0
expect_text "$out" '"options":{"global_batch_size":4096,"num_microbatches":4,' '"optimizer":"onebit-adam"' \
    '"not_kept":[]'
rejects 2 plan --deepspeed ds_onebit.json --world-size 48
run plan --deepspeed ds_refused.json --quiet
expect_code 0
expect "all that cannot be kept is listed" test "$(grep -c '^  ds_refused.json:[0-9]*: ' "$out")" = 11
rejects 2 train --config config.json --data-path data --output-dir new --deepspeed ds_refused.json
expect "no folder is left" test ! -e new

# One key at a time: what train says.
while read -r json; do
    echo "$json" >one.json
    rejects 2 train --config config.json --data-path data --output-dir new --deepspeed one.json
done <<'END'
{"fp16": {"enabled": true, "loss_scale": 128}}
{"amp": {"enabled": true}}
{"autotuning": {"enabled": true}}
{"optimizer": {"type": "Lion"}}
{"scheduler": {"type": "OneCycle"}}
{"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "log"}}}
{"zero_optimization": {"stage": 4}}
{"zero_optimization": {"offload_param": {"device": "nvme"}}}
{"zero_optimization": {"zero_quantized_everything": true}}
{"compression_training": {"sparse_pruning": {"shared_parameters": {"enabled": true}}}}
{"elasticity": {"enabled": true}}
{"unheard_of": 1}
{"train_batch_size": 48, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
{"gradient_accumulation_steps": 4}
{"fp16": {"enabled": true}, "bf16": {"enabled": true}}
END
echo '{' >bad.json
rejects 65 train --config config.json --data-path data --output-dir new --deepspeed bad.json
printf 'fp16:\n  enabled: true\n' >ds.yaml
rejects 65 train --config config.json --data-path data --output-dir new --deepspeed ds.yaml
rejects 66 train --config config.json --data-path data --output-dir new --accelerate nowhere.yaml

# YAML.
yaml() { # yaml CODE TEXT: refused
    printf '%b' "$2" >bad.yaml
    rejects "$1" plan --accelerate bad.yaml
}
if "$trident" doctor | grep -q '^yaml *yes'; then
    yaml 65 'num_machines: 1\nfsdp_config: [a, b\nuse_cpu: true\n'
    yaml 65 'num_machines: 1\n\tuse_cpu: true\n'
    yaml 65 'num_machines: 1\nnum_machines: 2\n'
    yaml 65 'a: &x\n  b: *x\n'
    yaml 65 '? [a]\n: 1\n'
    yaml 65 ''
    yaml 65 '- a\n- b\n'
    yaml 65 'a: \xff\n'
    printf '# comment\nmixed_precision: "no"\nnum_processes: 0x2\n' >hex.yaml
    rejects 2 train --accelerate hex.yaml --config config.json --data-path data
    printf '{"num_processes": 2,\n "use_cpu": yes, tpu_env: [], gpu_ids: ~,\n mixed_precision: no}\n' >flow.json
    rejects 65 plan --accelerate flow.json
    { echo; cat flow.json; } | sed 's/^{/--- {/' >flow.yaml
    translates --accelerate flow.yaml "--precision fp32 --device cpu --world-size 2"
fi

# Runs: the options of the file, of the configuration's key, and of our own words are the same run.
cat >ds.json <<'END'
{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "gradient_clipping": 0.5,
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.8, 0.99]}},
 "bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "overlap_comm": true}}
END
common=(train --data-path data --threads 1 --max-steps 3 --nproc-per-node 2 --quiet)
run "${common[@]}" --config config.json --output-dir theirs --deepspeed ds.json
expect_code 0
run "${common[@]}" --config config.json --output-dir ours --batch-size 8 --num-microbatches 2 --max-grad-norm 0.5 \
    --lr 1e-3 --adam-beta1 0.8 --adam-beta2 0.99 --precision bf16 --shard zero2
expect_code 0
make_config key.json '"deepspeed": "ds.json"'
run "${common[@]}" --config key.json --output-dir key
expect_code 0
make_config object.json "\"deepspeed\": $(tr '\n' ' ' <ds.json)"
run "${common[@]}" --config object.json --output-dir object
expect_code 0
digests=$(for folder in theirs ours key object; do "$trident" digest $folder; done | sort -u | wc -l)
expect "four ways to say it are one run" test "$digests" = 1
# The command line wins, the run's record has options, and it goes on without the file.
run "${common[@]}" --config config.json --output-dir wins --deepspeed ds.json --precision fp32 --lr 2e-3
expect_code 0
expect_text wins/metrics.jsonl '"precision":"fp32"' '"lr":0.002' '"shard":"zero2"'
printf 'deepspeed_config:\n  deepspeed_config_file: ds.json\ndistributed_type: DEEPSPEED\nuse_cpu: true\n' >with.yaml
if "$trident" doctor | grep -q '^yaml *yes'; then
    translates --accelerate with.yaml "--batch-size 8 --num-microbatches 2 --lr 0.001 --adam-beta1 0.8 \
--adam-beta2 0.99 --optimizer adamw --max-grad-norm 0.5 --precision bf16 --device cpu --shard zero2"
fi
# Ranks of the file are started; --device wins over what the file's kind of job means.
echo '{"distributed_type": "FSDP", "num_processes": 2, "mixed_precision": "bf16"}' >two.json
run train --config config.json --data-path data --threads 1 --max-steps 2 --output-dir two --accelerate two.json \
    --device cpu
expect_code 0
expect_text two/metrics.jsonl '"world_size":2' '"shard":"zero3"' '"precision":"bf16"' '"device":"cpu"'
expect_text "$err" "trident: two.json:1: distributed_type FSDP is taken as --shard zero3"
expect "notes are said once" test "$(grep -c 'taken as --precision' "$err")" = 1
# A contradiction with the configuration itself is refused with the line.
make_config twice.json '"precision": "fp32"' '"deepspeed": {"bf16": {"enabled": true}}'
rejects 2 train --config twice.json --data-path data --output-dir new
finish
