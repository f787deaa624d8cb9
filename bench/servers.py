"""Requests a second of servers with the same model on the same cores: Trident, infinity-emb, mlserver.

    python bench/servers.py [BUILD] --model FOLDER [--infinity BIN] [--mlserver BIN] [--clients 64] [--rounds 3]

The model classifies one text (Review Text of the reviews) with an encoder of the folder's size and weights (MiniLM: 6
layers of 384) and an untrained head: what is compared is the serving. Each request is one review of at most 128 tokens
over a kept connection; infinity-emb answers with the encoder's embedding, its main use. Load is `wrk` (Debian) with one
thread, on the same cores as the server. Servers are all up, and take turns of --seconds; an idle one costs nothing. The
figure is the median over the rounds.

Needs `wrk`, and torch and transformers from PyPI where this script runs; infinity-emb[server,torch] and mlserver (with
torch and transformers: its model is the class below, with adaptive batching) may have environments of their own. A
server whose program is not given is left out, and said so.
"""
import argparse
import csv
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "..", "..", "shared")
TEXT, LABEL = "Review Text", "Recommended IND"

RUNTIME = """
import torch
from mlserver import MLModel
from mlserver.codecs import StringCodec, NumpyCodec
from mlserver.types import InferenceResponse
from transformers import AutoModelForSequenceClassification, AutoTokenizer

class Classifier(MLModel):
    async def load(self):
        folder = self.settings.parameters.uri
        torch.set_grad_enabled(False)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.network = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        return True

    async def predict(self, payload):
        texts = StringCodec.decode_input(payload.inputs[0])
        inputs = self.tokenizer(texts, padding=True, truncation=True, max_length=128, return_tensors="pt")
        scores = self.network(**inputs).logits.softmax(-1).numpy()
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("scores", scores)])
"""

LUA = """
local bodies = {}
for line in io.lines(%s) do bodies[#bodies + 1] = line end
local at = 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
request = function()
  at = at %% #bodies + 1
  return wrk.format(nil, nil, nil, bodies[at])
end
done = function(summary, latency)
  io.write(string.format("RESULT %%d %%d %%d %%d %%d\\n", summary.requests, summary.duration,
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write +
    summary.errors.timeout, latency:percentile(50), latency:percentile(99)))
end
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--model", required=True, help="a Hugging Face folder of one encoder")
    parser.add_argument("--infinity", help="the program infinity_emb")
    parser.add_argument("--mlserver", help="the program mlserver")
    parser.add_argument("--precisions", default="fp32,int8", help="of Trident")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rows", type=int, default=512, help="different reviews")
    parser.add_argument("--shared", default=SHARED)
    return parser.parse_args()


def reviews(options):
    with open(os.path.join(options.shared, "data", "reviews", "valid.csv"), newline="") as file:
        rows = [row for row in csv.DictReader(file) if row[TEXT].strip()]
    return rows[:options.rows]


def classifier_folder(options, folder):
    """The same encoder with a classification head, as transformers saves it."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=2).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    tokenizer.model_max_length = 128
    tokenizer.save_pretrained(folder)


def trident_run(options, rows, work):
    """A run of one step: the folder's weights behind an untrained head."""
    table, config = os.path.join(work, "train.csv"), os.path.join(work, "config.json")
    with open(table, "w", newline="") as file:
        writer = csv.DictWriter(file, [TEXT, LABEL])
        writer.writeheader()
        writer.writerows({name: row[name] for name in (TEXT, LABEL)} for row in rows)
    with open(config, "w") as file:
        json.dump({"label_name": LABEL, "primary_text_name": TEXT, "primary_tokenizer": os.path.abspath(options.model),
                   "tab_field_list": [], "num_classes": 2, "max_sen_len": 128, "lr": 0.0, "pooling": "mean"}, file)
    run = os.path.join(work, "run")
    subprocess.run([os.path.join(options.build, "trident"), "train", "--config", config, "--data-path", table,
                    "--output-dir", run, "--max-steps", "1", "--batch-size", "8", "--quiet"], check=True)
    return run


def quiet():
    """Waits until the machine is idle: some servers go on computing for clients that have left."""
    def idle():
        with open("/proc/stat") as file:
            figures = [int(word) for word in file.readline().split()[1:]]
        return figures[3] + figures[4], sum(figures)
    for _ in range(120):
        before = idle()
        time.sleep(0.5)
        after = idle()
        if after[0] - before[0] > 0.9 * (after[1] - before[1]):
            return


class Server:
    def __init__(self, name, command, ready, path, bodies, environment=None):
        self.name, self.path = name, path
        self.log = tempfile.TemporaryFile("w+")
        self.start = time.time()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True,
                                        env={**os.environ, **(environment or {})})
        self.bodies = tempfile.NamedTemporaryFile("w", suffix=".jsonl")
        self.bodies.write("\n".join(bodies) + "\n")
        self.bodies.flush()
        self.script = tempfile.NamedTemporaryFile("w", suffix=".lua")
        self.script.write(LUA % json.dumps(self.bodies.name))
        self.script.flush()
        self.figures = []
        self.wait(ready)

    def wait(self, url):
        """Until it answers; a server that ends, its port being taken, is noticed before it is asked."""
        time.sleep(0.1)
        for _ in range(2400):
            if self.process.poll() is not None:
                self.log.seek(0)
                raise SystemExit(f"{self.name} ended: {self.log.read()[-2000:]}")
            try:
                with urllib.request.urlopen(url, timeout=1) as reply:
                    if reply.status == 200:
                        self.ready = time.time() - self.start
                        if self.process.poll() is None:
                            return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"{self.name} does not answer at {url}")

    def load(self, options, seconds):
        quiet()
        out = subprocess.run(["wrk", "-t1", f"-c{options.clients}", f"-d{seconds}s", "--timeout", "60s", "-s",
                              self.script.name, self.path], capture_output=True, text=True, check=True).stdout
        requests, micro, errors, half, most = map(int, re.search(r"RESULT (.*)", out).group(1).split())
        if errors:
            raise SystemExit(f"{self.name}: {errors} of {requests} requests failed")
        return requests / micro * 1e6, half / 1000, most / 1000

    def stop(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)


def start_servers(options, rows, work, servers):
    texts = [row[TEXT] for row in rows]
    folder, run = os.path.join(work, "classifier"), trident_run(options, rows, work)
    port = 18200
    for precision in options.precisions.split(","):
        port += 1
        servers.append(Server(f"trident {precision}",
                              [os.path.join(options.build, "trident"), "serve", run, "--port", str(port), "--precision",
                               precision], f"http://127.0.0.1:{port}/health", f"http://127.0.0.1:{port}/predict",
                              [json.dumps({"inputs": {TEXT: text}, "truncate": True}) for text in texts]))
    if options.infinity:
        servers.append(Server("infinity-emb",
                              [options.infinity, "v2", "--model-id", os.path.abspath(options.model), "--port", "18211",
                               "--device", "cpu",
                               "--no-bettertransformer", "--served-model-name", "m"],
                              "http://127.0.0.1:18211/health", "http://127.0.0.1:18211/embeddings",
                              [json.dumps({"model": "m", "input": [text], "encoding_format": "base64"})
                               for text in texts],
                              {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}))
    else:
        print("infinity-emb: not given (--infinity), left out")
    if options.mlserver:
        classifier_folder(options, folder)
        settings = os.path.join(work, "mlserver")
        os.makedirs(settings)
        with open(os.path.join(settings, "settings.json"), "w") as file:
            json.dump({"host": "127.0.0.1", "http_port": 18212, "grpc_port": 18213, "metrics_port": 18214,
                       "parallel_workers": 0, "debug": False}, file)
        with open(os.path.join(settings, "model-settings.json"), "w") as file:
            json.dump({"name": "m", "implementation": "runtime.Classifier", "max_batch_size": 32,
                       "max_batch_time": 0.01, "parameters": {"uri": folder}}, file)
        with open(os.path.join(settings, "runtime.py"), "w") as file:
            file.write(RUNTIME)
        servers.append(Server("mlserver", [options.mlserver, "start", settings],
                              "http://127.0.0.1:18212/v2/models/m/ready", "http://127.0.0.1:18212/v2/models/m/infer",
                              [json.dumps({"inputs": [{"name": "args", "shape": [1], "datatype": "BYTES",
                                                       "data": [text]}]}) for text in texts], {"HF_HUB_OFFLINE": "1"}))
    else:
        print("mlserver: not given (--mlserver), left out")


def main():
    options = arguments()
    if not shutil.which("wrk"):
        raise SystemExit("wrk is not installed: apt-get install wrk")
    rows, servers = reviews(options), []
    with tempfile.TemporaryDirectory() as work:
        try:
            start_servers(options, rows, work, servers)
            for server in servers:
                server.load(options, 2)
            for _ in range(options.rounds):
                for server in servers:
                    server.figures.append(server.load(options, options.seconds))
                    print(f"{server.name}: {server.figures[-1][0]:.1f} requests/s", file=sys.stderr)
        finally:
            for server in servers:
                server.stop()
    first = statistics.median(f[0] for f in servers[0].figures)
    print(f"{'server':<16} {'ready s':>8} {'requests/s':>11} {'p50 ms':>9} {'p99 ms':>9} {servers[0].name + ' is':>16}")
    for server in servers:
        rate, half, most = (statistics.median(f[i] for f in server.figures) for i in range(3))
        print(f"{server.name:<16} {server.ready:8.2f} {rate:11.1f} {half:9.1f} {most:9.1f} {first / rate:14.2f} x")


if __name__ == "__main__":
    main()
