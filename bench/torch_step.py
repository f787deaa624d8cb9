"""PyTorch's training step of the benchmark model: the reference of bench/step.py.

fixed:   16 samples of 128 tokens in both texts. No attention mask is given, as nothing is padded.
reviews: the reviews' own lengths, WordPiece of bert-base-cased, batch 32, padded to the batch's longest, in shuffled
order. Both: two 6-layer 384-wide encoders, dropout 0.1, fp32, fused AdamW, clipping at 1.0, scaled-dot-product
attention. modernbert: one 6-layer 384-wide ModernBERT (modernbert.json), 16 samples of 4 to 511 tokens, padded to the
batch's longest, without dropout, eager or with --compile, of dynamic shapes. Batches are assembled and padded before
the clock starts, so that only the step is measured. With WORLD_SIZE above 1 (and RANK, MASTER_ADDR, MASTER_PORT) it is
one rank of DDP over gloo, and each rank has its own batch.

minilm, base128, base512, base512real, large512, oneb, and the families' own (bert, modernbert, ...): the cases of
`trident bench step`, on a GPU: bf16 autocast over fp32 weights, eager or with --compile. --pad 64 pads to a multiple of
64 tokens, so that batches share a shape and a compilation. --by-layer compiles one layer and uses it for all, in
seconds instead of a minute or more; what is outside of layers is then eager. --fp8: the dense layers of the encoders'
layers with 8-bit factors (torch_fp8.py), BERT only. MFU counts only real tokens, three times the products of the
forward pass, against an 8192^3 product timed here. Prints one JSON object.
"""
import argparse
import csv
import json
import math
import os
import random
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "..", "..", "shared")

# texts, layers, width, heads, samples, tokens, ragged: as in src/cli/bench/models.c
GPU_CASES = {
    "minilm": (2, 6, 384, 12, 32, 256, True),
    "base128": (2, 12, 768, 12, 256, 128, False),
    "base512": (2, 12, 768, 12, 64, 512, False),
    "base512real": (2, 12, 768, 12, 64, 512, True),
    "large512": (2, 24, 1024, 16, 32, 512, False),
    "oneb": (1, 24, 2048, 16, 16, 1024, False),
}
# One encoder each, (1, layers, 768, 12, 64, 512, True): model_type, layers.
FAMILIES = {"bert": ("bert", 12), "distilbert": ("distilbert", 6), "electra": ("electra", 12), "mpnet": ("mpnet", 12),
            "modernbert": ("modernbert", 22), "deberta": ("deberta-v2", 12)}
GPU_CASES.update({case: (1, layers, 768, 12, 64, 512, True) for case, (_, layers) in FAMILIES.items()})
DEBERTA = {"type_vocab_size": 0, "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
           "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False,
           "max_relative_positions": -1}
GPU_VOCABULARY, GPU_BATCHES = 28996, 4


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=("fixed", "reviews", "modernbert", *GPU_CASES))
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    parser.add_argument("--by-layer", action="store_true", help="GPU cases of BERT: compile layers, not the model")
    parser.add_argument("--fp8", action="store_true", help="GPU cases of BERT: dense layers of 8-bit factors")
    parser.add_argument("--bf16", action="store_true", help="CPU cases: bf16 autocast over fp32 weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--pad", type=int, default=1, help="GPU cases: to a multiple of as many tokens")
    parser.add_argument("--batch", type=int, default=0,
                        help="samples of a step on each rank; left out: 16 or 32 by case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--config", help="left out: step.json or modernbert.json by case")
    parser.add_argument("--shared", default=SHARED, help="folder with data/reviews and tokenizers")
    options = parser.parse_args()
    if (options.fp8 or options.by_layer) and FAMILIES.get(options.case, ("bert",))[0] != "bert":
        parser.error("--fp8 and --by-layer know BERT's layers only")
    return options


def fixed_rows(count, vocabulary):
    """Samples whose texts are [CLS], 126 pieces, [SEP]."""
    rng = random.Random(1)
    text = lambda: [101] + [rng.randrange(1000, vocabulary) for _ in range(126)] + [102]
    return [(text(), text(), [rng.gauss(0, 1) for _ in range(3)], rng.randrange(2)) for _ in range(count)]


def ragged_lengths(count, tokens):
    """As gpu_lengths: most texts are short, few are long."""
    return [max(4, int(tokens * math.fmod((k + 0.5) * 0.6180339887498949, 1) ** 2.7)) for k in range(count)]


def ragged_rows(count, tokens, vocabulary):
    """Samples of one text: [CLS], pieces, [SEP]."""
    rng = random.Random(1)
    text = lambda length: [101] + [rng.randrange(1000, vocabulary) for _ in range(length - 2)] + [102]
    return [(text(length), [], [rng.gauss(0, 1) for _ in range(3)], rng.randrange(2))
            for length in ragged_lengths(count, tokens)]


def make_vocabulary(folder, size):
    """Writes a vocab.txt of `size` lines whose words are one piece each; returns the words."""
    special = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]"}
    lines = [special.get(i, f"word{i}") for i in range(size)]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return lines[1000:]


def read_reviews(shared, count):
    """The first `count` records of the training file after a seeded shuffle."""
    with open(os.path.join(shared, "data/reviews/train.csv"), newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    random.Random(1).shuffle(table)
    return table[:count]


def review_rows(shared, count, max_len):
    from tokenizers import BertWordPieceTokenizer
    tokenizer = BertWordPieceTokenizer(os.path.join(shared, "tokenizers/bert-base-cased/vocab.txt"), lowercase=False)
    tokenizer.enable_truncation(max_len)
    columns = ("Age", "Rating", "Positive Feedback Count")
    rows = []
    for record in read_reviews(shared, count):
        numbers = [float(record[name] or 0) / scale for name, scale in zip(columns, (100, 5, 10))]
        rows.append((tokenizer.encode(record["Review Text"]).ids, tokenizer.encode(record["Title"]).ids, numbers,
                     int(record["Recommended IND"])))
    return rows


def gpu_lengths(texts, samples, tokens, ragged):
    """Tokens of each text of each sample of GPU_BATCHES batches: as src/cli/bench/models.c."""
    count = texts * samples * GPU_BATCHES
    if not ragged:
        return [tokens] * count
    return ragged_lengths(count, tokens)


def gpu_ceiling(torch):
    """FLOP/s of an 8192^3 bf16 product of random numbers: the median of ten after three."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    times = []
    for turn in range(13):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        a @ b
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return 2 * 8192 ** 3 / statistics.median(times[3:])


def gpu_case(options):
    texts, layers, width, heads, samples, tokens, ragged = GPU_CASES[options.case]
    sys.path.insert(0, os.path.join(HERE, "..", "tools"))
    import torch
    from model import Trimodal, make_optimizer, pad, parameter_count
    torch.manual_seed(options.seed)
    ceiling = gpu_ceiling(torch)
    encoder = {"model_type": "bert", "vocab_size": GPU_VOCABULARY, "hidden_size": width, "num_hidden_layers": layers,
               "num_attention_heads": heads, "intermediate_size": 4 * width, "max_position_embeddings": tokens,
               "type_vocab_size": 2,
               "hidden_dropout_prob": options.dropout, "attention_probs_dropout_prob": options.dropout}
    inner, products = 4 * width, 2
    if options.case in FAMILIES:  # other keys are transformers' defaults
        family = FAMILIES[options.case][0]
        names = tuple(encoder)[1:7] if family != "distilbert" else (
            "vocab_size", "dim", "n_layers", "n_heads", "hidden_dim", "max_position_embeddings")
        if family == "modernbert":
            inner, products = width * 3 // 2, 3
        sizes = (50368 if family == "modernbert" else GPU_VOCABULARY, width, layers, heads, inner,
                 tokens + 2 * (family == "mpnet"))
        encoder = {"model_type": family, **dict(zip(names, sizes, strict=True)),
                   **(DEBERTA if family == "deberta-v2" else {})}
    config = {"primary_text_name": "first", "secondary_text_name": "second" if texts > 1 else None,
              "primary_encoder": encoder,
              "secondary_encoder": encoder, "tab_field_list": ["a", "b", "c"], "hidden_common_dim": 256,
              "fusion_hidden_dim": 128,
              "fusion_dropout": options.dropout, "num_classes": 2}
    if not ragged: # some versions make a mask of ones while compiling, which keeps attention from its fastest kernel
        import transformers.models.bert.modeling_bert as bert
        bert.create_bidirectional_mask = lambda *_, **__: None
    lengths = gpu_lengths(texts, samples, tokens, ragged)
    rng = random.Random(1)
    batches, flops = [], []
    for at in range(0, len(lengths), texts * samples):
        part = lengths[at:at + texts * samples]
        made = {}
        for text, name in enumerate(("primary", "secondary")[:texts]):
            rows = [[rng.randrange(5, GPU_VOCABULARY) for _ in range(length)] for length in part[text::texts]]
            ids, mask = pad(rows, 0)
            if ragged:
                more = (0, -ids.shape[1] % options.pad)
                ids, mask = torch.nn.functional.pad(ids, more), torch.nn.functional.pad(mask, more)
            made[name] = (ids.cuda(), None if mask is None else mask.cuda())
        batches.append((made, torch.randn(samples, 3).cuda(), torch.randint(0, 2, (samples,)).cuda()))
        flops.append(3 * layers * sum(length * width * (8 * width + 2 * products * inner) + 4 * length ** 2 * width
                                      for length in part))
    with torch.device("cuda"):  # weights drawn on the GPU: in no time
        model = Trimodal(config).train()
    optimizer = make_optimizer(model, 1e-4, 0.01, fused=True)
    layers_of = [layer for name in model.branches for layer in getattr(model, name).encoder.layer] \
        if options.fp8 or options.by_layer else []
    if options.fp8:
        import torch_fp8
        for layer in layers_of:
            torch_fp8.convert(layer)
    forward = torch.compile(model) if options.compile and not options.by_layer else model
    for layer in layers_of if options.compile and options.by_layer else ():
        layer.compile()
    times, losses, start = [], [], time.perf_counter()
    for step in range(options.warmup + options.steps):
        made, numbers, labels = batches[step % len(batches)]
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = forward(made, numbers)
        loss = model.loss(logits.float(), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        if step == 0:
            first = time.perf_counter() - start
    timed = times[options.warmup:]
    done = sum(flops[step % len(batches)] for step in range(options.warmup, options.warmup + options.steps))
    print(json.dumps({
        "engine": "pytorch " + torch.__version__, "case": options.case, "compiled": options.compile,
        "by_layer": options.by_layer, "fp8": options.fp8, "step_ms": round(1000 * statistics.median(timed), 2),
        "step_ms_mean": round(1000 * statistics.mean(timed), 2),
        "step_ms_min": round(1000 * min(timed), 2),
        "first_step_seconds": round(first, 2), "samples_per_second": round(samples * len(timed) / sum(timed), 2),
        "mfu": round(done / sum(timed) / ceiling, 4), "ceiling_tflops": round(ceiling / 1e12, 1),
        "step_tflop": round(done / len(timed) / 1e12, 3), "parameters": parameter_count(model),
        "allocated_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved(),
        "loss_first": losses[0], "loss_last": losses[-1]}))


def main():
    options = arguments()
    if options.case in GPU_CASES:
        return gpu_case(options)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    sys.path.insert(0, os.path.join(HERE, "..", "tools"))
    import torch
    from model import Trimodal, make_optimizer, pad, parameter_count
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    modern = options.case == "modernbert"
    with open(options.config or os.path.join(HERE, "modernbert.json" if modern else "step.json"),
              encoding="utf-8") as file:
        config = json.load(file)
    for name in () if modern else ("primary_encoder", "secondary_encoder"):
        config[name].update(hidden_dropout_prob=options.dropout, attention_probs_dropout_prob=options.dropout)
    config["fusion_dropout"] = 0.0 if modern else options.dropout

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    steps = options.warmup + options.steps
    batch = options.batch or (32 if options.case == "reviews" else 16)
    if options.case == "fixed":
        rows = fixed_rows(steps * batch * world, config["primary_encoder"]["vocab_size"])
    elif modern:
        rows = ragged_rows(steps * batch * world, config["max_sen_len"], config["primary_encoder"]["vocab_size"])
    else:
        rows = review_rows(options.shared, steps * batch * world, config["max_sen_len"])
    rows = [row for at in range(rank * batch, len(rows), world * batch) for row in rows[at:at + batch]]
    batches = []
    for at in range(0, len(rows), batch):
        part = rows[at:at + batch]
        texts = {name: pad([row[k] for row in part], 0)
                 for k, name in enumerate(("primary",) if modern else ("primary", "secondary"))}
        batches.append((texts, torch.tensor([row[2] for row in part]), torch.tensor([row[3] for row in part])))

    model = Trimodal(config).train()
    optimizer = make_optimizer(model, 1e-4, 0.01, fused=True)
    forward = torch.compile(model, dynamic=options.case != "fixed") if options.compile else model
    if world > 1:
        torch.distributed.init_process_group("gloo")
        forward = torch.nn.parallel.DistributedDataParallel(model)
    times, losses = [], []
    for texts, numbers, labels in batches:
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bf16):
            loss = model.loss(forward(texts, numbers), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - begin)
    if world > 1:
        torch.distributed.destroy_process_group()
    if rank:
        return
    timed = times[options.warmup:]
    tokens = sum(len(row[0]) + len(row[1]) for row in rows[options.warmup * batch:])
    median = statistics.median(timed)
    print(json.dumps({
        "engine": "pytorch " + torch.__version__ + (", compiled" if options.compile else "") +
                  (", bf16" if options.bf16 else ""),
        "case": options.case, "threads": torch.get_num_threads(),
        "steps": len(timed), "batch": batch, "parameters": parameter_count(model),
        "step_ms": round(1000 * median, 1), "step_ms_min": round(1000 * min(timed), 1),
        "step_ms_mean": round(1000 * statistics.mean(timed), 1),
        "samples_per_second": round(batch * len(timed) / sum(timed), 3),  # over all steps, as ragged batches differ
        "tokens_per_second": round(tokens / sum(timed), 1), "loss_first": losses[0], "loss_last": losses[-1],
    }))


if __name__ == "__main__":
    main()
