# Memory: a run uses the memory of its plan; a plan beyond --memory-limit is refused, with the nearest layout that fits.
. "$(dirname "$0")/../lib/cli_lib.sh"
make_all
encoder='{"model_type": "bert", "hidden_size": 128, "num_hidden_layers": 8, "num_attention_heads": 4,'
encoder+=' "intermediate_size": 512, "max_position_embeddings": 64}'
make_config config.json "\"primary_encoder\": $encoder"
two="--config config.json --data-path data --nproc-per-node 2 --batch-size 4 --quiet"
one="--config config.json --data-path data --batch-size 4 --quiet"

# needs ARGS...: bytes that all ranks need together, by the plan. Only the training step counts here: prediction needs
# less of each class.
needs() {
    run plan --json "$@"
    tr '{' '\n' <"$out" |
        awk -F'[:,]' \
            '/"infer"/ { exit }
            /"total"/ { for (i = 1; i < NF; i++) if ($i ~ /"total"/) sum += $(i + 1) }
            /"offload_bytes"/ { sub(/.*"offload_bytes":/, ""); sum -= $0 }
            END { print sum }'
}

ddp=$(needs $two)
zero1=$(needs $two --shard zero1)
zero3=$(needs $two --shard zero3)
saving=$(needs $two --shard zero3 --recompute full)
offloaded=$(needs $two --shard zero3 --recompute full --offload optimizer)
expect "sharding, recomputation and offloading need less each" test "$ddp" -gt "$zero1" -a "$zero1" -gt "$zero3" \
    -a "$zero3" -gt "$saving" -a "$saving" -gt "$offloaded"

# The first layout that fits is named, in this order; at the limit itself a plan fits.
for command in plan "train --output-dir run"; do
    refuses 71 "2 ranks need" "together, --memory-limit allows" ": --shard zero1 would need" \
        -- $command $two --memory-limit $((ddp - 1))
    refuses 71 ": --shard zero3 would need" -- $command $two --memory-limit "$zero3"
    refuses 71 ": --shard zero3 --recompute full would need" -- $command $two --memory-limit $((zero3 - 1))
    refuses 71 ": --shard zero3 --recompute full --offload optimizer would need" \
        -- $command $two --shard zero1 --memory-limit $((saving - 1))
    refuses 71 "and no layout of it fits" "take a smaller --batch-size" \
        -- $command $two --memory-limit $((offloaded - 1))
    refuses 71 "the plan needs" ": --recompute full would need" -- $command $one --memory-limit $((ddp / 2 - 1))
done
expect "nothing was begun" test ! -e run/metrics.jsonl
run plan $two --memory-limit "$ddp"
expect_code 0
rejects 2 plan $two --memory-limit much
rejects 2 train $one --memory-limit 0

# A run takes what the plan said, and says so itself.
run plan --json $two --shard zero3
tr -d '\n' <"$out" | sed 's/.*"ranks":\[{/{/; s/,"infer".*//' | tr '{' '\n' | grep -F '"param":' >planned
run train $two --shard zero3 --memory-limit "$zero3" --epochs 1 --save-every 0 --output-dir run --profile active=2
expect_code 0
tr -d '\n ' <run/summary.json >summary
for rank in 1 2; do
    bytes=$(sed -n "${rank}s/}.*//p" planned)
    expect "rank $((rank - 1)): bytes as planned, by class" grep -qF "\"bytes\":{$bytes}" summary
done
expect_text summary '"sent_bytes":{' '"all_gather":' '"reduce_scatter":' '"transfers":{' '"exposed_seconds":' \
    '"held_bytes":' '"max_rss_bytes":'
total=$(sed -n '1s/.*"total":\([0-9]*\).*/\1/p' planned)
expect "what is allocated is what was planned" grep -qF "\"allocated_bytes\":$total" summary

# Sizes that no 64 bits hold are refused, not overflowed.
big='{"model_type": "bert", "hidden_size": 65536, "num_hidden_layers": 100, "num_attention_heads": 1024,'
big+=' "intermediate_size": 262144, "max_position_embeddings": 65536}'
make_config big.json "\"primary_encoder\": $big" "\"secondary_encoder\": $big" '"max_sen_len": 65536'
refuses 71 "more than any machine has" "take a smaller --batch-size" -- plan --config big.json --batch-size 1048576

# Little address space is enough for a small model: plans and heaps take addresses as they grow. Sanitizers take
# terabytes themselves.
if [ -z "${TRI_SANITIZED:-}" ]; then
    for ranks in 1 2; do
        (ulimit -v 1048576 && "$trident" train $one --nproc-per-node $ranks --epochs 1 --output-dir tight-$ranks) \
            >"$out" 2>"$err"
        expect "$ranks ranks train in 1 GiB of addresses" test $? -eq 0
    done
fi
# ---- Limits of control groups, of either version: those of a group around the own one count ----
group=trident-$$
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    cpu=/sys/fs/cgroup/$group memory=$cpu quota='cpu.max 100000 100000' limit=memory.max
else
    cpu=/sys/fs/cgroup/cpu/$group memory=/sys/fs/cgroup/memory/$group
    quota='cpu.cfs_quota_us 100000' limit=memory.limit_in_bytes
fi
remove_groups() { rmdir "$cpu/inner" "$cpu" "$memory/inner" "$memory" 2>/dev/null; }
trap 'remove_groups; rm -rf "$work"' EXIT
if mkdir -p "$cpu/inner" "$memory/inner" 2>/dev/null && echo "${quota#* }" 2>/dev/null >"$cpu/${quota%% *}" &&
    echo 96M 2>/dev/null >"$memory/$limit"; then
    cat >inside <<END
#!/bin/sh
echo \$\$ >$cpu/inner/cgroup.procs
echo \$\$ >$memory/inner/cgroup.procs
exec "\$@"
END
    chmod +x inside
    trident_outside=$trident
    cat >grouped <<END
#!/bin/sh
exec "$work/inside" "$trident_outside" "\$@"
END
    chmod +x grouped
    trident=$work/grouped
    run train $one --max-steps 1 --no-report --output-dir grouped-run
    expect_code 0
    expect "one thread: the quota is one processor" grep -q '"threads":1,' grouped-run/metrics.jsonl
    run mesh --nproc-per-node auto
    expect_text "$out" "1 rank: "
    make_config large.json "\"primary_encoder\": $(sed 's/128/512/; s/: 512,* "max/: 2048, "max/' <<<"$encoder")"
    refuses 71 " is free (the limit of this control group is 96.0 MiB)" -- train --config large.json --data-path data \
        --batch-size 4 --quiet --output-dir no
    trident=$trident_outside
else
    echo "left out: control groups (they cannot be made here)"
fi
finish
