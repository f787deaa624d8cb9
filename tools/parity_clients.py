"""Asks `trident serve` with the clients that people have: huggingface_hub's InferenceClient and Triton's.

    .venv/bin/python tools/parity_clients.py [BUILD]

Every answer must have the labels and the bits of `trident predict`: InferenceClient's requests one by one, Triton's
with binary and JSON tensors of several datatypes, binary and JSON outputs. Part of `make parity`."""
import csv
import os
import subprocess
import sys
import tempfile

import numpy as np

import parity_logs


def same(what, labels, probabilities, wanted):
    names, table = wanted
    if list(labels) != names or not np.array_equal(np.asarray(probabilities, np.float32), table):
        sys.exit(f"parity_clients: {what}: other answers than `trident predict` gives")


def predicted(build, folder):
    subprocess.run([f"{build}/trident", "predict", "--checkpoint", f"{folder}/run", "--data-path",
                    f"{folder}/data/valid.csv", "-o", f"{folder}/out.csv", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    with open(f"{folder}/out.csv", newline="") as out:
        rows = list(csv.DictReader(out))
    classes = [name.removeprefix("prob_") for name in rows[0] if name.startswith("prob_")]
    table = np.array([[row["prob_" + name] for name in classes] for row in rows], np.float32)
    return classes, ([row["label"] for row in rows], table)


def huggingface(address, rows, classes, wanted):
    from huggingface_hub import InferenceClient

    client = InferenceClient(model=address)
    answers = [client.text_classification({"text": row["text"], "size": int(row["size"])}) for row in rows]
    scores = [{one.label: one.score for one in answer} for answer in answers]
    same("InferenceClient", [answer[0].label for answer in answers],
         [[score[name] for name in classes] for score in scores], wanted)
    if len(client.text_classification(rows[0]["text"], top_k=1)) != 1:
        sys.exit("parity_clients: InferenceClient: top_k 1 gives another number of classes")


def triton(address, rows, wanted):
    import tritonclient.http as client

    server = client.InferenceServerClient(address.removeprefix("http://"))
    if not server.is_server_ready() or not server.is_model_ready("run"):
        sys.exit("parity_clients: tritonclient: the server is not ready")

    def column(name, values, datatype, binary):
        tensor = client.InferInput(name, list(values.shape), datatype)
        tensor.set_data_from_numpy(values, binary_data=binary)
        return tensor

    texts = np.array([row["text"] for row in rows], object)
    for datatype, kind in ("INT8", np.int8), ("UINT16", np.uint16), ("INT64", np.int64), ("FP32", np.float32):
        sizes = np.array([int(row["size"]) for row in rows], kind).reshape(-1, 1)
        for binary in True, False:
            inputs = [column("text", texts, "BYTES", binary), column("size", sizes, datatype, binary)]
            outputs = [client.InferRequestedOutput(name, binary_data=not binary) for name in ("label", "probabilities")]
            for asked in None, outputs:
                answer = server.infer("run", inputs, outputs=asked)
                labels = [one.decode() if isinstance(one, bytes) else one for one in answer.as_numpy("label")]
                same(f"tritonclient, {datatype}", labels, answer.as_numpy("probabilities"), wanted)


def compare(build):
    with tempfile.TemporaryDirectory() as folder:
        parity_logs.make_run(build, folder)
        classes, wanted = predicted(build, folder)
        with open(f"{folder}/data/valid.csv", newline="") as table:
            rows = list(csv.DictReader(table))
        server = subprocess.Popen([f"{build}/trident", "serve", f"{folder}/run", "--port", "0", "--max-rows", "64",
                                   "--quiet"],
                                  stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().split(" at ")[1].split(";")[0]
            huggingface(address, rows, classes, wanted)
            triton(address, rows, wanted)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    compare(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(parity_logs.ROOT, "build")))
