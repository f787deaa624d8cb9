"""Accuracy on three tasks of ../shared/data/reviews, against what people use without a GPU.

    .venv/bin/python bench/accuracy.py [BUILD] --into FOLDER --minilm FOLDER [--rows a;b] [--tasks a;b] [--seeds 1,2,3]
                                       [--args "--device cuda --precision bf16"] [--at-once N] [--test]

Tasks: recommended or not; the rating, 1 to 5; the department. Rows: TF-IDF with logistic regression, TF-IDF with
LightGBM, MiniLM's embeddings with LightGBM; Trident from random weights, from MiniLM's, and stacked: a logistic
regression of the log-probabilities of Trident's MiniLM models and of the baselines.

A task's columns are those that `trident inspect` proposes, without those that give the label away (TASKS), and
Trident's configuration is the one that `trident inspect --write-config` writes: the default recipe. Baselines are
fitted once, Trident with each seed. All choices, of constants of the baselines too, are made on the validation rows.
Figures are of the validation rows; --test adds those of the test rows, which are to be looked at once for a recipe.

FOLDER keeps probabilities of every row's models, TASK/ROW/SEED/{valid,test}.npy; what it has is not made again, so the
whole can be run in slices and on several machines. Needs numpy, and for the baselines scikit-learn, LightGBM and
transformers (tools/venv).

Targets: see docs/internals/accuracy.md. Exit 1 where one is missed with --test.
"""
import argparse
import concurrent.futures
import csv
import os
import shutil
import statistics
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.environ.get("REVIEWS", os.path.join(HERE, "..", "..", "shared", "data", "reviews"))
TEXTS = ("Review Text", "Title")
NUMBERS = ("Age", "Rating", "Positive Feedback Count", "Recommended IND")
CATEGORIES = ("Division Name", "Department Name", "Class Name")
PARTS = ("train", "valid", "test")

# label; columns that give it away, which nobody would have who does not have the label; columns beside the texts
TASKS = {
    "recommended": ("Recommended IND", ()),
    "rating": ("Rating", ()),
    "department": ("Department Name", ("Division Name", "Class Name")),
}
POSITIVE = {"recommended": "1"}


def columns_of(task):
    label, gives_away = TASKS[task]
    return [name for name in NUMBERS + CATEGORIES if name != label and name not in gives_away]


def read(part):
    with open(os.path.join(DATA, part + ".csv"), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Table:
    """The rows of a task that have a label, and their classes."""

    def __init__(self, task):
        self.task, (self.label, _) = task, TASKS[task]
        self.rows = {part: [row for row in read(part) if row[self.label] != ""] for part in PARTS}
        self.classes = sorted({row[self.label] for row in self.rows["train"]})
        index = {label: k for k, label in enumerate(self.classes)}
        self.labels = {part: np.array([index[row[self.label]] for row in rows]) for part, rows in self.rows.items()}


# The baselines. Each returns {part: probabilities [rows, classes]} for valid and test.

def sparse_features(table):
    """TF-IDF of words and pairs of words of each text; numbers scaled, categories one-hot."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    blocks = {part: [] for part in PARTS}
    for text in TEXTS:
        words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2, strip_accents="unicode")
        words.fit([row[text] for row in table.rows["train"]])
        for part in PARTS:
            blocks[part].append(words.transform([row[text] for row in table.rows[part]]))
    columns = columns_of(table.task)
    numbers = [name for name in columns if name in NUMBERS]
    categories = [name for name in columns if name in CATEGORIES]
    number_rows = lambda part: np.array([[float(row[name]) for name in numbers] for row in table.rows[part]])
    scale = StandardScaler().fit(number_rows("train"))
    few = [name for name in numbers if name in ("Rating", "Recommended IND")] + categories  # as categories, too
    values = lambda part: [[row[name] for name in few] for row in table.rows[part]]
    one_hot = OneHotEncoder(handle_unknown="ignore").fit(values("train"))
    return {part: hstack(blocks[part] + [csr_matrix(scale.transform(number_rows(part))),
                                         one_hot.transform(values(part))]).tocsr() for part in PARTS}


def log_loss(probs, labels):
    return float(-np.log(np.maximum(probs[np.arange(len(labels)), labels], 1e-12)).mean())


def tfidf_lr(table, seed, options):
    from sklearn.linear_model import LogisticRegression
    del seed, options
    x, best = sparse_features(table), None
    for strength in (0.3, 1, 3, 10):
        model = LogisticRegression(C=strength, max_iter=2000).fit(x["train"], table.labels["train"])
        loss = log_loss(model.predict_proba(x["valid"]), table.labels["valid"])
        if best is None or loss < best[0]:
            best = loss, model
    return {part: best[1].predict_proba(x[part]) for part in ("valid", "test")}


def boosted(x, table, seed, rate):
    """LightGBM, stopped on the validation rows."""
    import lightgbm
    train = lightgbm.Dataset(x["train"], table.labels["train"], free_raw_data=False)
    valid = lightgbm.Dataset(x["valid"], table.labels["valid"], reference=train, free_raw_data=False)
    n = len(table.classes)
    params = {"objective": "binary" if n == 2 else "multiclass", "learning_rate": rate, "num_leaves": 31,
              "feature_fraction": 0.5, "bagging_fraction": 0.8, "bagging_freq": 1, "min_data_in_leaf": 20,
              "seed": seed, "verbose": -1, "deterministic": True, "num_threads": os.cpu_count()}
    if n > 2:
        params["num_class"] = n
    model = lightgbm.train(params, train, 600, [valid], callbacks=[lightgbm.early_stopping(30, verbose=False)])
    probs = {part: model.predict(x[part]) for part in ("valid", "test")}
    return {part: np.stack([1 - p, p], 1) if n == 2 else p for part, p in probs.items()}


def tfidf_lightgbm(table, seed, options):
    del options
    return boosted(sparse_features(table), table, seed, 0.1)


def embeddings(options):
    """{part: [rows, 2 x width]} of all rows: MiniLM's mean vector of each text; kept in FOLDER."""
    path = os.path.join(options.into, "embeddings.npz")
    if not os.path.exists(path):
        import torch
        from transformers import AutoModel, AutoTokenizer
        tokenizer, model = AutoTokenizer.from_pretrained(options.minilm), AutoModel.from_pretrained(options.minilm)
        model.eval()

        def vectors(texts):
            order, out = np.argsort([len(text) for text in texts]), [None] * len(texts)
            for at in range(0, len(texts), 64):
                some = order[at:at + 64]
                batch = tokenizer([texts[i] for i in some], padding=True, truncation=True, max_length=192,
                                  return_tensors="pt")
                with torch.no_grad():
                    hidden = model(**batch).last_hidden_state
                mask = batch["attention_mask"][:, :, None]
                mean = ((hidden * mask).sum(1) / mask.sum(1)).numpy()
                for place, i in enumerate(some):
                    out[i] = mean[place]
            return np.array(out)

        made = {part: np.concatenate([vectors([row[text] for row in read(part)]) for text in TEXTS], 1)
                for part in PARTS}
        np.savez(path, **made)
    return np.load(path)


def embeddings_lightgbm(table, seed, options):
    vectors, columns = embeddings(options), columns_of(table.task)
    codes = {name: {value: k for k, value in enumerate(sorted({row[name] for row in table.rows["train"]}))}
             for name in columns if name in CATEGORIES}

    def features(part):
        keep = np.array([row[table.label] != "" for row in read(part)])
        plain = np.array([[codes[name].get(row[name], -1) if name in codes else float(row[name]) for name in columns]
                          for row in table.rows[part]])
        return np.concatenate([vectors[part][keep], plain], 1)

    return boosted({part: features(part) for part in PARTS}, table, seed, 0.1)


# Trident.

def starter(table, options, name, random):
    """The configuration that `trident inspect --write-config` writes."""
    path = os.path.join(options.into, f"{table.task}-{name}.json")
    command = [options.trident, "inspect", DATA, "--tokenizer", options.random if random else options.minilm,
               "--label-name", table.label, "--primary-text-name", TEXTS[0], "--secondary-text-name", TEXTS[1],
               "--tab-field-list", ",".join(columns_of(table.task)), "--write-config", path, "--force"]
    subprocess.run(command, check=True, capture_output=True)
    return path


def trident(table, seed, options, name, random):
    run = os.path.join(options.into, table.task, name, str(seed), "run")
    shutil.rmtree(run, ignore_errors=True)
    extra = options.args.split()
    subprocess.run([options.trident, "train", "--config", starter(table, options, name, random), "--data-path", DATA,
                    "--output-dir", run, "--seed", str(seed), "--bad-rows", "skip", "--quiet", "--no-report",
                    "--cache-dir", os.path.join(options.into, "cache-" + table.task)] + extra, check=True)
    probs = {}
    for part in ("valid", "test"):
        out = os.path.join(run, part + ".csv")
        subprocess.run([options.trident, "predict", "--checkpoint", run, "--data-path",
                        os.path.join(DATA, part + ".csv"), "--keep", table.label, "-o", out, "--force", "--quiet"] +
                       options.predict_args.split(), check=True)
        with open(out, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row[table.label] != ""]
        probs[part] = np.array([[float(row["prob_" + label]) for label in table.classes] for row in rows])
        assert [table.classes[k] for k in table.labels[part]] == [row[table.label] for row in rows]
    shutil.rmtree(run)
    return probs


def stacked(table, seed, options):
    """Logistic regression of log-probabilities, fitted to the validation rows, which trained none of the models."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    parts = [load(options, table.task, row, seed) for row in ("MiniLM", "TF-IDF + LR", "embeddings + LightGBM")]
    logs = {part: np.concatenate([np.log(np.clip(probs[part], 1e-6, 1)) for probs in parts], 1)
            for part in ("valid", "test")}
    model = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
                         {"logisticregression__C": [1e-3, 1e-2, 1e-1]}, cv=5, scoring="neg_log_loss")
    model.fit(logs["valid"], table.labels["valid"])
    return {part: model.predict_proba(logs[part]) for part in logs}


ROWS = {
    "TF-IDF + LR": tfidf_lr,
    "TF-IDF + LightGBM": tfidf_lightgbm,
    "embeddings + LightGBM": embeddings_lightgbm,
    "random weights": lambda table, seed, options: trident(table, seed, options, "random weights", True),
    "MiniLM": lambda table, seed, options: trident(table, seed, options, "MiniLM", False),
    "stacked": stacked,
}
BASELINES = ("TF-IDF + LR", "TF-IDF + LightGBM", "embeddings + LightGBM")


def place(options, task, row, seed, part):
    return os.path.join(options.into, task, row, str(1 if row in BASELINES else seed), part + ".npy")


def load(options, task, row, seed):
    return {part: np.load(place(options, task, row, seed, part)) for part in ("valid", "test")}


def make(options, table, row, seed):
    if all(os.path.exists(place(options, table.task, row, seed, part)) for part in ("valid", "test")):
        return
    probs = ROWS[row](table, seed, options)
    for part, p in probs.items():
        path = place(options, table.task, row, seed, part)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        np.save(path, p)
    print(f"{table.task}, {row}, seed {seed}: done", file=sys.stderr, flush=True)


# Figures, as scikit-learn defines them.

def roc_auc(score, positive):
    order = np.argsort(score, kind="stable")
    ranks, sorted_score = np.empty(len(score)), score[order]
    first = np.concatenate([[0], np.flatnonzero(np.diff(sorted_score)) + 1, [len(score)]])
    for begin, end in zip(first[:-1], first[1:]):
        ranks[order[begin:end]] = (begin + end + 1) / 2
    n = positive.sum()
    return (ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(score) - n))


def average_precision(score, positive):
    order = np.argsort(-score, kind="stable")
    hits, last = np.cumsum(positive[order]), np.append(np.diff(score[order]) != 0, True)
    hits, taken = hits[last], np.flatnonzero(last) + 1
    return float(np.sum(np.diff(np.append(0, hits)) * hits / taken) / positive.sum())


def calibration_error(probs, labels, bins=15):
    top, right = probs.max(1), probs.argmax(1) == labels
    which = np.minimum((top * bins).astype(int), bins - 1)
    return float(sum(abs(top[which == b].mean() - right[which == b].mean()) * (which == b).mean()
                     for b in np.unique(which)))


def figures(table, probs, labels):
    classes = range(len(table.classes))
    found = {"accuracy": float((probs.argmax(1) == labels).mean()), "loss": log_loss(probs, labels),
             "ECE": calibration_error(probs, labels)}
    if table.task in POSITIVE:
        k = table.classes.index(POSITIVE[table.task])
        found["AUC"] = roc_auc(probs[:, k], labels == k)
        found["PR AUC"] = average_precision(probs[:, k], labels == k)
    else:
        found["AUC"] = statistics.mean(roc_auc(probs[:, k], labels == k) for k in classes)
        found["PR AUC"] = statistics.mean(average_precision(probs[:, k], labels == k) for k in classes)
    return found


def show(options, tables, rows, seeds, part):
    """The table of means over seeds; returns them by task and row."""
    names, means = ("accuracy", "AUC", "PR AUC", "loss", "ECE"), {}
    print(f"| task, {part} rows | model | " + " | ".join(names) + " |\n|---|---|" + "---|" * len(names))
    for table in tables:
        for row in rows:
            found = [figures(table, load(options, table.task, row, seed)[part], table.labels[part])
                     for seed in ([1] if row in BASELINES else seeds)
                     if os.path.exists(place(options, table.task, row, seed, part))]
            if not found:
                continue
            mean = {name: statistics.mean(f[name] for f in found) for name in names}
            spread = {name: statistics.stdev(f[name] for f in found) if len(found) > 1 else 0 for name in names}
            means[table.task, row] = mean
            cells = [f"{mean[n]:.4f}" + (f" ± {spread[n]:.4f}" if len(found) > 1 else "") for n in names]
            print(f"| {table.task} | {row} | " + " | ".join(cells) + " |")
    return means


def missed(means):
    """What the targets want and the test rows did not give."""
    found, gains = [], []
    for task in TASKS:
        ours, best = means.get((task, "MiniLM")), [means[task, row] for row in BASELINES if (task, row) in means]
        if not ours or not best:
            continue
        gains.append(ours["AUC"] - max(b["AUC"] for b in best))
        if gains[-1] < 0:
            found.append(f"{task}: MiniLM's AUC {ours['AUC']:.4f} is below the best baseline's")
        if ours["ECE"] > 0.02:
            found.append(f"{task}: ECE {ours['ECE']:.4f}, wanted 0.02")
        from_nothing, linear = means.get((task, "random weights")), means.get((task, "TF-IDF + LR"))
        if from_nothing and linear and from_nothing["AUC"] < linear["AUC"]:
            found.append(f"{task}: random weights' AUC {from_nothing['AUC']:.4f} is below TF-IDF + LR's")
    wanted = (("recommended", "PR AUC", 0.9965), ("recommended", "accuracy", 0.945), ("rating", "AUC", 0.912))
    for task, name, bound in wanted:
        if (task, "MiniLM") in means and means[task, "MiniLM"][name] < bound:
            found.append(f"{task}: {name} {means[task, 'MiniLM'][name]:.4f}, wanted {bound}")
    if gains and statistics.mean(gains) < 0.005:
        found.append(f"mean gain in AUC over the best baseline {statistics.mean(gains):.4f}, wanted 0.005")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--into", required=True)
    parser.add_argument("--minilm", help="MiniLM's folder; needed to make what FOLDER does not have")
    parser.add_argument("--random", help="a tokenizer's folder without weights, for random weights")
    parser.add_argument("--rows", default=";".join(ROWS))
    parser.add_argument("--tasks", default=";".join(TASKS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--args", default="", help="further options of trident train")
    parser.add_argument("--predict-args", default="", help="further options of trident predict")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--test", action="store_true", help="also the figures of the test rows, and the targets")
    options = parser.parse_args()
    options.trident = os.path.join(options.build, "trident")
    os.makedirs(options.into, exist_ok=True)
    rows, seeds = options.rows.split(";"), [int(seed) for seed in options.seeds.split(",")]
    tables = [Table(task) for task in options.tasks.split(";")]
    jobs = [(table, row, seed) for row in rows for table in tables for seed in ([1] if row in BASELINES else seeds)]
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        for row in rows:  # a stack needs the rows before it
            list(pool.map(lambda job: make(options, *job), [job for job in jobs if job[1] == row]))
    show(options, tables, rows, seeds, "valid")
    if not options.test:
        return 0
    print()
    found = missed(show(options, tables, rows, seeds, "test"))
    print("\n" + ("\n".join(found) if found else "all targets met"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
