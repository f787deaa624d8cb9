"""Trident's tokenizers against Hugging Face's, in the same run: the same texts, one thread; and Trident's second
thread.

    .venv/bin/python bench/tokenizing.py [BUILD] [--rounds 5] [--only NAME]

All titles and texts of ../shared/data/reviews (46,972), no truncation. Both run alternately; figures are ratios of
medians over the rounds. Hugging Face: encode_batch, parallelism off. Trident: build/bench/tokenize, which keeps running
between its turns, like the library, so that both have warm word caches. The ids' count and sum must be equal.
bench/README.md states the targets; exit 1 if one is missed.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SHARED = os.path.join(ROOT, "..", "shared")
sys.path.insert(0, os.path.join(ROOT, "tools"))

import golden_tokenizer as golden
import golden_unigram as unigram

TARGET, TARGET_SECOND = 2.0, 1.8
TARGET_UNIGRAM = 5.0  # of the Unigram tokenizers, which are learnt from the same texts: 16,000 pieces


def reviews():
    for name in ("train", "valid", "test"):
        with open(os.path.join(SHARED, "data", "reviews", name + ".csv"), newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                yield from (row["Title"], row["Review Text"])


def tokenizers(texts, made):
    folder = os.path.join(SHARED, "tokenizers")
    for kind in ("cased", "uncased"):
        here = os.path.join(folder, f"bert-base-{kind}")
        yield f"bert-base-{kind}", here, golden.bert(here, kind == "uncased")
    here = os.path.join(folder, "roberta-base")
    yield "roberta-base", here, golden.byte_level(os.path.join(here, "vocab.json"), os.path.join(here, "merges.txt"),
                                                  True)
    for name, here in unigram.released((text.replace("\n", " ") for text in texts if text.strip()), made):
        yield f"unigram {name}", here, unigram.read(here)


class Trident:
    def __init__(self, build, folder):
        self.process = subprocess.Popen([os.path.join(os.path.abspath(build), "bench", "tokenize"), folder], cwd=ROOT,
                                        text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def encode(self, threads):
        self.process.stdin.write(f"{threads}\n")
        self.process.stdin.flush()
        seconds, ids, total = self.process.stdout.readline().split()
        return float(seconds), int(ids), int(total)


def encode_batch(tokenizer, texts):
    begin = time.perf_counter()
    encodings = tokenizer.encode_batch(texts)
    seconds = time.perf_counter() - begin
    return seconds, sum(len(one.ids) for one in encodings), sum(sum(one.ids) for one in encodings)


def measure(build, name, folder, tokenizer, texts, rounds):
    trident = Trident(build, folder)
    times = {"huggingface": [], "trident": [], "trident_2": []}
    for _ in range(rounds):
        theirs, *want = encode_batch(tokenizer, texts)
        times["huggingface"].append(theirs)
        for key, threads in (("trident", 1), ("trident_2", 2)):
            # a turn of Trident is short: the median of seven is used
            turns = [trident.encode(threads) for _ in range(7)]
            if any(turn[1:] != tuple(want) for turn in turns):
                sys.exit(f"bench: {name}: the ids differ")
            times[key].append(statistics.median(turn[0] for turn in turns))
    trident.process.stdin.close()
    trident.process.wait()
    middle = {key: statistics.median(value) for key, value in times.items()}
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    result = {"tokenizer": name, "texts": len(texts), "MB": round(megabytes, 2),
              "huggingface_MB_s": round(megabytes / middle["huggingface"], 2),
              "trident_MB_s": round(megabytes / middle["trident"], 2),
              "ratio": round(middle["huggingface"] / middle["trident"], 2),
              "second_thread": round(middle["trident"] / middle["trident_2"], 2),
              "rounds": {key: [round(value, 4) for value in values] for key, values in times.items()}}
    print(json.dumps(result), flush=True)
    target = TARGET_UNIGRAM if name.startswith("unigram") else TARGET
    return result["ratio"] >= target and result["second_thread"] >= TARGET_SECOND


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="tokenizers whose names contain this")
    options = parser.parse_args()
    if not os.path.isdir(SHARED):
        print("tokenize: ../shared is not here: skipped")
        return
    texts = list(reviews())
    with tempfile.TemporaryDirectory() as made:
        results = [measure(options.build, name, folder, tokenizer, texts, options.rounds)
                   for name, folder, tokenizer in tokenizers(texts, made) if options.only in name]
    if not all(results):
        sys.exit("bench: a target is missed")


if __name__ == "__main__":
    main()
