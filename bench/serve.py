"""The model alone, without a server: Trident's forward-only program against other runtimes, in the same run.

    python bench/serve.py [BUILD] --model FOLDER [--cases 1x128,32xmixed] [--peers onnxruntime,torch] [--rounds 3]

A row is two texts (and three numbers, which only Trident computes), each with its own encoder of the folder's size;
MiniLM: 6 layers of 384. ROWSxTOKENS: a batch of rows whose texts all have that many tokens. ROWSxmixed: batches of
reviews (Review Text and Title, WordPiece), in file order, as a server gets them; ROWSxsorted: the same, sorted by
length first, as libraries do with a whole table. Peers pad each text to the longest of the batch; Trident packs.

Every program has its own process and `--threads` threads. They take turns, one case at a time, so that a slow phase of
the machine affects all; the figure is the median over the rounds. Ratios are Trident's of the same precision: fp32
against floats, int8 against int8. Needs numpy, torch, transformers, onnx, onnxruntime, openvino, ctranslate2 from PyPI.
"""
import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "..", "..", "shared")
PEERS = ("onnxruntime", "openvino", "ctranslate2", "torch", "torch-bf16", "onnxruntime-int8", "ctranslate2-int8")
CASES = "1x16,1x64,1x128,1x256,1x512,32x16,32x64,32x128,32x256,32x512,1xmixed,32xmixed,32xsorted"
TEXTS = ("Review Text", "Title")
FIRST_WORD, LONGEST = 1000, 512


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--model", required=True, help="a Hugging Face folder of one encoder")
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--precisions", default="fp32,bf16,int8", help="of Trident")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=128, help="reviews of a mixed case")
    parser.add_argument("--cpu-time", action="store_true",
                        help="compare the least CPU time of a pass, on one thread: for a machine that others use, too")
    parser.add_argument("--shared", default=SHARED)
    return parser.parse_args()


class Peer:
    """A process that answers a line of JSON with a line of JSON; `reason`: why it is not there."""

    def __init__(self, name, options):
        self.name, self.reason = name, None
        self.log = tempfile.TemporaryFile("w+")
        environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "TOKENIZERS_PARALLELISM": "false"}
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "serve_peers.py"), name, options.model,
                                         str(options.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, env=environment)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.log.seek(0)
        self.reason = (self.log.read().strip().splitlines() or ["ended"])[-1]
        return None

    def ask(self, rows, ids):
        if self.reason:
            return None
        self.process.stdin.write(json.dumps({"rows": rows, "ids": ids}) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def review_ids(options):
    """[row][text]: token ids of reviews."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    with open(os.path.join(options.shared, "data", "reviews", "test.csv"), encoding="utf-8", newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(options.rows))]
    return [[tokenizer(row[name], truncation=True, max_length=LONGEST)["input_ids"] for name in TEXTS] for row in rows]


def case_ids(tokens, rows, options):
    if tokens in ("mixed", "sorted"):
        ids = review_ids(options)
        return sorted(ids, key=lambda row: -sum(map(len, row))) if tokens == "sorted" else ids
    rng = random.Random(1)
    return [[[rng.randrange(FIRST_WORD, 30000) for _ in range(int(tokens))] for _ in TEXTS] for _ in range(rows)]


def trident(options, precision, tokens, rows, ids, folder):
    path = os.path.join(folder, "lengths")
    with open(path, "w", encoding="ascii") as file:
        file.writelines(" ".join(str(len(text)) for text in row) + "\n" for row in ids)
    case = f"minilm:{rows}x{'mixed' if tokens == 'sorted' else tokens}"
    result = subprocess.run([os.path.join(options.build, "trident"), "bench", "serve", "--json", "--quiet", "--cases",
                             case, "--lengths", path, "--threads", str(options.threads), "--precision", precision],
                            capture_output=True, text=True)
    if result.returncode:
        return None, result.stderr.strip().splitlines()[-1]
    return json.loads(result.stdout), None


def show(case, tokens, measured, precisions, peers, least):
    figures = {name: min(times) if least else statistics.median(times) for name, times in measured.items() if times}
    for precision in precisions:
        if f"trident {precision}" not in figures:
            continue
        ours = figures[f"trident {precision}"]
        rivals = [peer for peer in peers if peer in figures and (precision == "int8") == peer.endswith("int8")]
        name = min(rivals, key=figures.get, default=None)
        ratios = {peer: round(figures[peer] / ours, 2) for peer in peers if peer in figures}
        print(json.dumps({"case": case, "precision": precision, "tokens": tokens, "pass_ms": round(ours, 2),
                          "tokens_per_second": round(1e3 * tokens / ours), "best_peer": name,
                          "over_best_peer": round(figures[name] / ours, 2) if name else None, "over": ratios,
                          "over_fp32": round(figures.get("trident fp32", ours) / ours, 2),
                          "peers_ms": {peer: round(figures[peer], 2) for peer in peers if peer in figures}}),
              flush=True)


def main():
    options = arguments()
    precisions = options.precisions.split(",")
    if options.cpu_time:
        options.threads = 1
    peers = [Peer(name, options) for name in options.peers.split(",") if name]
    missing, key = {}, "cpu_ms" if options.cpu_time else "pass_ms"
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases.split(","):
            count, tokens = case.split("x", 1)
            rows = int(count)
            ids = case_ids(tokens, rows, options)
            measured = {}
            for _ in range(options.rounds):
                for precision in precisions:
                    figures, why = trident(options, precision, tokens, rows, ids, folder)
                    if figures:
                        measured.setdefault(f"trident {precision}", []).append(figures[key])
                    else:
                        missing[f"trident {precision}"] = why
                for peer in peers:
                    figures = peer.ask(rows, ids)
                    if figures:
                        measured.setdefault(peer.name, []).append(figures[key])
            show(case, sum(len(text) for row in ids for text in row), measured, precisions, [p.name for p in peers],
                 options.cpu_time)
    for peer in peers:
        if peer.reason:
            missing[peer.name] = peer.reason
        peer.close()
    for name, why in missing.items():
        print(f"not measured: {name}: {why}", file=sys.stderr)


main()
