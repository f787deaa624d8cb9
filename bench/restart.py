"""Recovery time after a crash: from killing a rank to the first step after --max-restarts restarted the job from the
last checkpoint.

    python3 bench/restart.py [BUILD] [--kills 5] [--ranks 2]

Two 8-layer 512-wide encoders, 72 million parameters (0.9 GB of state, from the page cache), generated data. A
step is detected by the progress line of its start. Prints one JSON object; exit 1 if the median is above 3 s
(bench/README.md).
"""
import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ENCODER = {"model_type": "bert", "vocab_size": 20005, "hidden_size": 512, "num_hidden_layers": 8,
           "num_attention_heads": 8, "intermediate_size": 2048,
           "max_position_embeddings": 64}
CONFIG = {"label_name": "label", "primary_text_name": "text", "secondary_text_name": "title",
          "tab_field_list": ["size"], "primary_tokenizer": "vocab",
          "primary_encoder": ENCODER, "secondary_encoder": ENCODER, "max_sen_len": 16}


def prepare(folder):
    os.makedirs(os.path.join(folder, "vocab"))
    with open(os.path.join(folder, "vocab", "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(20000)]) + "\n")
    with open(os.path.join(folder, "train.csv"), "w", encoding="utf-8") as file:
        file.write("text,title,size,label\n")
        for i in range(4000):
            words = " ".join(f"w{random.randrange(20000)}" for _ in range(6))
            file.write(f"{words},{words[:8].strip()},{i % 7},{i % 2}\n")
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)


def ranks_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def measure(folder, options):
    """Seconds of each kill until a step is reported again."""
    job = subprocess.Popen([os.path.join(options.build, "trident"), "train", "--config", "config.json", "--data-path",
                            folder, "--models-dir", folder,
                            "--output-dir", "run", "--batch-size", "2", "--epochs", "50", "--save-steps", "3",
                            "--save-every", "1000", "--keep", "1",
                            "--nproc-per-node", str(options.ranks), "--threads", "1", "--max-restarts",
                            str(options.kills)],
                           cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    times, killed, saved = [], None, False
    for line in job.stderr:
        if killed is not None and re.search(r"step \d+/\d+  loss", line):
            times.append(time.monotonic() - killed)
            killed, saved = None, False
        saved |= line.startswith("saved ")
        if saved and killed is None:
            if len(times) == options.kills:
                break
            killed = time.monotonic()
            os.kill(ranks_of(job.pid)[-1], signal.SIGKILL)
    job.send_signal(signal.SIGTERM)
    job.stderr.close()
    job.wait()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        times = measure(folder, options)
    if len(times) < options.kills:
        sys.exit(f"restart: {len(times)} of {options.kills} restarts were seen")
    met = statistics.median(times) < 3
    print(json.dumps({"what": "kill to first new step", "ranks": options.ranks, "seconds": [round(t, 2) for t in times],
                      "median": round(statistics.median(times), 2), "met": met}))
    sys.exit(not met)


if __name__ == "__main__":
    main()
