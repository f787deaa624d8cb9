"""PyTorch's training step of the benchmark model: what bench/step.py compares Trident with.

fixed:   16 samples of 128 tokens in both texts. No attention mask is given, as nothing is padded.
reviews: the reviews' own lengths, WordPiece of bert-base-cased, batch 32, padded to the batch's longest, in shuffled order.
Both: two 6-layer 384-wide encoders, dropout 0.1, fp32, fused AdamW, clipping at 1.0, scaled-dot-product attention. The
batches are made and padded before the clock starts, so that only the step is measured.
With WORLD_SIZE above 1 (and RANK, MASTER_ADDR, MASTER_PORT) it is one rank of DDP over gloo, and each rank has a batch of its own.
Prints one JSON object.
"""
import argparse
import csv
import json
import os
import random
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "..", "..", "shared")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=("fixed", "reviews"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--batch", type=int, default=0, help="samples of a step on each rank; left out: 16 or 32 by case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--config", default=os.path.join(HERE, "step.json"))
    parser.add_argument("--shared", default=SHARED, help="folder with data/reviews and tokenizers")
    return parser.parse_args()


def fixed_rows(count, vocabulary):
    """Samples whose texts are [CLS], 126 pieces, [SEP]."""
    rng = random.Random(1)
    text = lambda: [101] + [rng.randrange(1000, vocabulary) for _ in range(126)] + [102]
    return [(text(), text(), [rng.gauss(0, 1) for _ in range(3)], rng.randrange(2)) for _ in range(count)]


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


def main():
    options = arguments()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    sys.path.insert(0, os.path.join(HERE, "..", "tools"))
    import torch
    from model import Trimodal, make_optimizer, pad, parameter_count
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    with open(options.config, encoding="utf-8") as file:
        config = json.load(file)
    for name in ("primary_encoder", "secondary_encoder"):
        config[name].update(hidden_dropout_prob=options.dropout, attention_probs_dropout_prob=options.dropout)
    config["fusion_dropout"] = options.dropout

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    steps = options.warmup + options.steps
    batch = options.batch or (16 if options.case == "fixed" else 32)
    if options.case == "fixed":
        rows = fixed_rows(steps * batch * world, config["primary_encoder"]["vocab_size"])
    else:
        rows = review_rows(options.shared, steps * batch * world, config["max_sen_len"])
    rows = [row for at in range(rank * batch, len(rows), world * batch) for row in rows[at:at + batch]]
    batches = []
    for at in range(0, len(rows), batch):
        part = rows[at:at + batch]
        texts = {"primary": pad([row[0] for row in part], 0), "secondary": pad([row[1] for row in part], 0)}
        batches.append((texts, torch.tensor([row[2] for row in part]), torch.tensor([row[3] for row in part])))

    model = Trimodal(config).train()
    optimizer = make_optimizer(model, 1e-4, 0.01, fused=True)
    forward = model
    if world > 1:
        torch.distributed.init_process_group("gloo")
        forward = torch.nn.parallel.DistributedDataParallel(model)
    times, losses = [], []
    for texts, numbers, labels in batches:
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
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
        "engine": "pytorch " + torch.__version__, "case": options.case, "threads": torch.get_num_threads(),
        "steps": len(timed), "batch": batch, "parameters": parameter_count(model),
        "step_ms": round(1000 * median, 1), "step_ms_min": round(1000 * min(timed), 1),
        "step_ms_mean": round(1000 * statistics.mean(timed), 1),
        "samples_per_second": round(batch * len(timed) / sum(timed), 3),  # over all steps, as ragged batches differ
        "tokens_per_second": round(tokens / sum(timed), 1), "loss_first": losses[0], "loss_last": losses[-1],
    }))


if __name__ == "__main__":
    main()
