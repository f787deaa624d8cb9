"""Opens a run's logs with TensorBoard.

    .venv/bin/python tools/parity_logs.py [BUILD]

Trains a small model on ranks of made-up rows, stops it at a step, goes on to the end, and expects from TensorBoard's
own reader the figures of metrics.jsonl: its event files, its precision-recall, text and hyperparameter plug-ins. Part
of `make parity`."""
import csv
import glob
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
WORDS = "good bad fine late early box lost found the a was is it and not very".split()
LABELS = ["fine", "a | <b>bad</b> one", "lost \u00e9 with a label that is longer than a tag shows"]


def make_run(build, folder):
    """A run of three classes in folder/run, begun and gone on with; its lines of metrics.jsonl."""
    os.makedirs(f"{folder}/model")
    with open(f"{folder}/model/vocab.txt", "w") as out:
        out.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ""]))
    os.makedirs(f"{folder}/data")
    for name, rows in ("train", 96), ("valid", 48):
        with open(f"{folder}/data/{name}.csv", "w", newline="") as out:
            table = csv.writer(out)
            table.writerow(["text", "size", "label"])
            for i in range(rows):
                table.writerow([f"the {WORDS[i * 5 % 7]} box {WORDS[i % 9]}", i % 11, LABELS[i * 7 % 3]])
    encoder = dict(model_type="bert", hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                   max_position_embeddings=32)
    with open(f"{folder}/config.json", "w") as out:
        json.dump(dict(label_name="label", primary_text_name="text", tab_field_list=["size"],
                       primary_tokenizer=f"{folder}/model", primary_encoder=encoder, hidden_common_dim=8,
                       fusion_hidden_dim=8, num_classes=3, is_binary=False, max_sen_len=16, lr=1e-3, warmup_steps=2),
                  out)
    for steps in 30, 60:
        subprocess.run([f"{build}/trident", "train", "--config", f"{folder}/config.json", "--data-path",
                        f"{folder}/data", "--output-dir", f"{folder}/run", "--batch-size", "8", "--epochs", "10",
                        "--max-steps", str(steps), "--allow-change", "max_steps", "--quiet"],
                       check=True, stdout=subprocess.DEVNULL)
    with open(f"{folder}/run/metrics.jsonl") as lines:
        return [json.loads(line) for line in lines]


def expect(what, got, wanted):
    same = len(got) == len(wanted) and all(
        a[0] == b[0] and math.isclose(a[1], b[1], rel_tol=1e-6, abs_tol=1e-12) for a, b in zip(got, wanted))
    if not same:
        sys.exit(f"parity_logs: {what}: {got[:4]} ... instead of {wanted[:4]} ...")


def figures(lines, event, key):
    return [(line["step"], line[key]) for line in lines if line["event"] == event and line.get(key) is not None]


def tensorboard(folder, lines):
    from tensorboard.backend.event_processing import data_provider, event_file_loader, plugin_event_multiplexer
    from tensorboard.context import RequestContext
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import backend_context
    from tensorboard.plugins.pr_curve import pr_curves_plugin
    from tensorboard.plugins.text import text_plugin
    from tensorboard.util import tensor_util

    events = sum(len(list(event_file_loader.EventFileLoader(path).Load()))
                 for path in glob.glob(f"{folder}/run/events*"))
    many = plugin_event_multiplexer.EventMultiplexer(tensor_size_guidance={"scalars": 0, "tensors": 0})
    many.AddRun(f"{folder}/run", "run")
    many.Reload()
    tags = set(many.Runs()["run"]["tensors"])

    def points(tag):
        return [(e.step, float(tensor_util.make_ndarray(e.tensor_proto))) for e in many.Tensors("run", tag)]

    for tag, event, key in (("train/loss", "train", "loss"), ("speed/idle_share", "train", "idle_share"),
                            ("speed/loader_share", "train", "loader_share"),
                            ("memory/planned_bytes", "train", "mem_bytes"),
                            ("eval/accuracy", "epoch", "accuracy"), ("eval/roc_auc", "epoch", "roc_auc")):
        expect(f"TensorBoard's {tag}", points(tag), figures(lines, event, key))
    with open(f"{folder}/run/summary.json") as text:
        valid = json.load(text)["valid"]
    f1 = {tag: points(tag)[-1][1] for tag in tags if tag.startswith("eval_f1/")}
    expect("TensorBoard's F1 of classes", [(0, v) for v in sorted(f1.values())],
           [(0, v) for v in sorted(valid["f1"]["per_class"].values())])
    provider = data_provider.MultiplexerDataProvider(many, f"{folder}/run")
    context = base_plugin.TBContext(logdir=f"{folder}/run", multiplexer=many, data_provider=provider, sampling_hints={})
    request = RequestContext()
    curves = pr_curves_plugin.PrCurvesPlugin(context)
    curve_tags = curves.tags_impl(request, "x")["run"]
    assert len(curve_tags) == 3, curve_tags
    for tag in curve_tags:
        last = curves.pr_curves_impl(request, "x", ["run"], tag)["run"][-1]
        assert last["step"] == 60 and last["recall"][0] == 1.0, last["step"]
        for tp, fp, fn, precision, recall in zip(last["true_positives"], last["false_positives"],
                                                 last["false_negatives"], last["precision"], last["recall"]):
            assert math.isclose(precision, tp / max(tp + fp, 1), rel_tol=1e-6)
            assert math.isclose(recall, tp / (tp + fn), rel_tol=1e-6)
    text = text_plugin.TextPlugin(context).text_impl(request, "run", "configuration/text_summary", "x", True)
    assert "<table>" in text[0]["text"] and "fusion_hidden_dim" in text[0]["text"], text[0]["text"][:400]
    hyper = backend_context.Context(context)
    found = hyper.experiment_from_metadata(request, "x", True, hyper.hparams_metadata(request, "x"),
                                           hyper.hparams_from_data_provider(request, "x", limit=1000))
    names = {info.name for info in found.hparam_infos}
    assert {"max_steps", "lr", "batch_size"} <= names, names
    print(f"  TensorBoard: {events} events, {len(tags)} tags, {len(curve_tags)} precision-recall curves, "
          f"{len(names)} hyperparameters")


def compare(build):
    with tempfile.TemporaryDirectory() as folder:
        tensorboard(folder, make_run(build, folder))


if __name__ == "__main__":
    compare(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build")))
