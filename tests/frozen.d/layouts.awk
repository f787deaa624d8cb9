# layouts.awk - random but reproducible layouts, one a line: a name and options of `trident plan`. The generator is a
# linear congruential one whose products stay below 2^53, so that every awk draws the same numbers.
function draw(n) { seed = (seed * 69069 + 12345) % 2147483648; return int(seed / 65536) % n }
function pick(words,    list, n) { n = split(words, list, " "); return list[1 + draw(n)] }
function often(percent) { return draw(100) < percent }
function add(text) { line = line " " text }

# Options that only replicas have.
function replicas(    shard) {
    shard = pick("none none zero1 zero2 zero3 zero3 hybrid")
    if (shard == "hybrid" && (dp % 2 || dp < 4)) shard = "zero2"
    if (shard != "none") add("--shard " shard)
    if (shard == "hybrid") add("--shard-size 2")
    if (shard == "zero3" || shard == "hybrid") {
        if (often(50)) add("--prefetch " draw(4))
        if (often(30)) add("--reshard-after-forward " pick("yes no"))
        if (often(20)) add("--wrap size --wrap-min-params " pick("4000 20000 100000000"))
        if (often(20)) add("--compress-weights " pick("bf16 int8"))
    }
    coded = often(25)
    if (coded) {
        add("--compress-gradients " pick("bf16 int8 int4 fp8"))
        if (often(50)) add("--error-feedback")
    }
    if (often(30)) add("--bucket-mb " pick("0.01 0.05 1"))
    if (shard == "none" && cp == 1 && often(20)) add("--sync-every " 2 + draw(3))
    else if (shard == "none" && !coded && often(20)) {
        add("--optimizer " pick("onebit-adam onebit-lamb zero-one-adam")); own = 1
    }
}

function pipeline(    schedule) {
    schedule = pick("gpipe 1f1b 1f1b interleaved zb-h1 zbv")
    add("--schedule " schedule " --pipeline-shape " (schedule == "zbv" || often(75) ? "chain" : pick("branch auto")))
    if (schedule == "interleaved" && often(50)) add("--virtual-stages 2")
    add("--num-microbatches " pp * (1 + draw(3)))
}

function layout(device,    config, precision) {
    pp = pick("1 1 2 2 3 4"); tp = pick("1 1 1 2 2 4"); cp = pick("1 1 1 1 2 3"); dp = pick("1 1 2 2 3 4")
    if (pp * tp * cp * dp > 32) cp = 1
    if (pp * tp * cp * dp > 32) tp = 1
    own = 0
    config = pp > 1 && often(60) ? "deep" : pick("base base deep wide still bert roberta xlm-roberta distilbert " \
        "electra mpnet mpnet modernbert modernbert deberta deberta-c2p act-gelu_new act-relu act-silu gated-gelu " \
        "gated-relu gated-silu sparse-window sparse-longformer sparse-fixed sparse-bigbird sparse-bslongformer experts experts " \
        "one-text no-table shared pool-cls pool-mean gated embedded periodic classes windows")
    line = sprintf("--config %s.json --device %s --world-size %d --pp-size %d --tp-size %d", config, device,
        pp * tp * cp * dp, pp, tp)
    add("--nproc-per-node " pp * tp * cp * dp)
    if (config ~ /^(experts|mpnet|deberta)/) { dp *= cp; cp = 1 } # no ranks share their tokens
    if (cp > 1) add("--cp-size " cp " --cp-mode " (4 % (cp * tp) ? "ring" : pick("ring heads auto")))
    if (config == "experts" && dp % 2 == 0 && often(70)) add("--ep-size 2")
    if (dp > 1) replicas()
    if (pp > 1) pipeline()
    else if (often(30)) add("--num-microbatches " pick("2 3 4"))
    if (tp > 1 && config != "experts" && often(40)) add("--sequence-parallel " pick("yes no"))
    precision = device == "cuda" ? pick("fp32 bf16 bf16 bf16 fp16 fp8 fp8") : pick("fp32 fp32 bf16 bf16 fp16 fp8")
    add("--precision " precision)
    if (precision != "fp8" && precision != "fp16" && often(10)) add("--quantize int8")
    if (precision != "fp32" && often(30)) add("--reduce-dtype " pick("bf16 fp32"))
    if (!own) add("--optimizer " pick("adamw adamw adamw adam lamb sgd"))
    if (often(30)) add("--recompute " pick("selective full"))
    if (often(15)) add("--offload " pick("optimizer optimizer,gradients params optimizer,gradients,params activations"))
    if (often(15)) add("--average-weights " pick("ema:0.9 last:2"))
    if (often(10)) add("--layer-drop theta=0.5,gamma=0.01")
    if (often(10)) add("--freeze " pick("embeddings layers=1 embeddings,layers=1 layers=all"))
    if (often(20)) add(pick("--label-smoothing=0.1 --loss=focal"))
    if (often(20)) add("--mesh-order " pick("dp,pp,tp tp,pp,dp pp,dp,tp"))
    add("--batch-size " 12 * pick("1 2 4"))
    return line
}

BEGIN {
    seed = 41
    for (i = 1; i <= 200; i++) printf "plain-%03d %s\n", i, layout("reference")
    for (i = 1; i <= 120; i++) printf "gpu-%03d %s\n", i, layout("cuda")
    for (i = 1; i <= 80; i++) printf "cpu-%03d %s\n", i, layout("cpu")
}
