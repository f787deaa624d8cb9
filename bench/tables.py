"""Answers on open tables with texts, against CatBoost and LightGBM: same rows, five splits.

    python bench/tables.py [BUILD] --into FOLDER --data FOLDER [--minilm FOLDER] [--rows a;b] [--tables a;b]
                           [--seeds 1,2,3,4,5] [--args "..."] [--threads N] [--test]

Tables, all in wheels on PyPI; --data is a folder with these files, for a table is read and never copied into the
project: spotify.parquet, wine_dot_com_prices.parquet, wine_pl.parquet, wine_vivino_price.parquet (package carte-ai,
carte_ai/data) and imdb.csv (package tabstar, tabstar/resources). Labels are numbers (R2) but for spotify and imdb
(two classes: ROC AUC).

Each seed shuffles the rows: 64 % to train on, 16 % for validation, 20 % for the test. Baselines read numbers as they
are, categories as such, and texts as TF-IDF of words and pairs of words (LightGBM: sparse; CatBoost: its 64 largest
singular vectors), and stop early on validation; of three learning rates that which is best on validation is kept.
Trident's configuration is the one that `trident inspect --write-config` writes for the columns that the table's row
below names: one recipe for all. Figures are of the validation rows; --test adds those of the test rows.

FOLDER keeps the predictions of every row, TABLE/ROW/SEED/{valid,test}.npy; what it has is not made again. Needs numpy,
pandas, pyarrow, scikit-learn, lightgbm and catboost.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

import numpy as np

PARTS = ("train", "valid", "test")

# file, label, whether it is a class, columns by kind; a column that is in no list is not read.
TABLES = {
    "spotify": ("spotify.parquet", "popularity", True, ("track", "artist"),
                ("key", "mode", "time_signature", "decade"),
                ("danceability", "energy", "loudness", "speechiness", "acousticness", "instrumentalness", "liveness",
                 "valence", "tempo", "duration_ms", "chorus_hit", "sections")),
    "wine.com": ("wine_dot_com_prices.parquet", "Prices", False, ("Names", "rater", "Grapes", "Region"),
                 ("wine_type", "Year"), ("Capacity", "Ratings", "ABV")),
    "wine_pl": ("wine_pl.parquet", "price", False, ("name", "grapes", "appellation", "vineyard", "region"),
                ("country", "vintage", "serving_temperature", "wine_type", "taste", "style", "vegan", "natural"),
                ("volume", "ABV")),
    "vivino": ("wine_vivino_price.parquet", "Price", False, ("Name", "Winery", "Region"), ("Year", "Wine_Type"),
               ("Rating", "Number_Of_Ratings")),
    "imdb": ("imdb.csv", "Genre_is_Drama", True, ("Title", "Description", "Director", "Actors"), (),
             ("Rank", "Year", "Runtime (Minutes)", "Rating", "Votes", "Revenue (Millions)", "Metascore")),
}


class Table:
    """A table and one of its splits; labels as floats, of two classes 0 and 1."""

    def __init__(self, name, seed, options):
        import pandas
        file, self.label, self.is_class, self.texts, self.categories, self.numbers = TABLES[name]
        path = os.path.join(options.data, file)
        frame = pandas.read_parquet(path) if path.endswith(".parquet") else pandas.read_csv(path)
        for column in self.texts + self.categories:
            frame[column] = frame[column].astype(object).where(frame[column].notna(), "").astype(str)
        order = np.random.default_rng(seed).permutation(len(frame))
        n, test = len(frame), round(0.2 * len(frame))
        valid = round(0.16 * n)
        rows = {"test": order[:test], "valid": order[test:test + valid], "train": order[test + valid:]}
        self.name, self.seed = name, seed
        self.frame = {part: frame.iloc[rows[part]] for part in PARTS}
        self.y = {part: self.frame[part][self.label].astype(float).to_numpy() for part in PARTS}


def score(table, part, predicted):
    """R2, or ROC AUC of the probability of class 1."""
    from sklearn.metrics import r2_score, roc_auc_score
    return (roc_auc_score if table.is_class else r2_score)(table.y[part], predicted)


def tfidf(table):
    """Sparse [rows, words] of all texts."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    blocks = {part: [] for part in PARTS}
    for text in table.texts:
        words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2, strip_accents="unicode",
                                max_features=20000)
        words.fit(table.frame["train"][text])
        for part in PARTS:
            blocks[part].append(words.transform(table.frame[part][text]))
    return {part: hstack(blocks[part]).tocsr() for part in PARTS}


def numbers(table, part):
    return table.frame[part][list(table.numbers)].astype(float).to_numpy()


def lightgbm_tfidf(table, options):
    """LightGBM of numbers, codes of categories and of texts that repeat, and TF-IDF."""
    import lightgbm
    from scipy.sparse import csr_matrix, hstack
    words, x = tfidf(table), {}
    names = table.categories + table.texts
    codes = {name: {v: k for k, v in enumerate(sorted(set(table.frame["train"][name])))} for name in names}
    for part in PARTS:
        plain = np.array([[codes[name].get(v, -1) for v in table.frame[part][name]] for name in names]).T
        x[part] = hstack([csr_matrix(np.concatenate([numbers(table, part), plain], 1)), words[part]]).tocsr()
    first = len(table.numbers)
    categorical = list(range(first, first + len(table.categories)))
    best = None
    for rate in (0.03, 0.1):
        train = lightgbm.Dataset(x["train"], table.y["train"], categorical_feature=categorical, free_raw_data=False)
        valid = lightgbm.Dataset(x["valid"], table.y["valid"], reference=train, free_raw_data=False)
        model = lightgbm.train({"objective": "binary" if table.is_class else "regression", "learning_rate": rate,
                                "num_leaves": 31, "feature_fraction": 0.5, "bagging_fraction": 0.8, "bagging_freq": 1,
                                "seed": table.seed, "verbose": -1, "num_threads": options.threads},
                               train, 2000, [valid], callbacks=[lightgbm.early_stopping(50, verbose=False)])
        predicted = {part: model.predict(x[part]) for part in ("valid", "test")}
        if best is None or score(table, "valid", predicted["valid"]) > score(table, "valid", best["valid"]):
            best = predicted
    return best


def catboost_tfidf(table, options):
    """CatBoost of numbers, categories, texts that repeat as categories, and 64 directions of TF-IDF."""
    import catboost
    import pandas
    from sklearn.decomposition import TruncatedSVD
    words = tfidf(table)
    directions = TruncatedSVD(64, random_state=table.seed).fit(words["train"])
    names = list(table.categories + table.texts)
    pools = {}
    for part in PARTS:
        frame = pandas.DataFrame(numbers(table, part), columns=list(table.numbers))
        for name in names:
            frame[name] = table.frame[part][name].to_numpy()
        dense = directions.transform(words[part])
        frame = pandas.concat([frame, pandas.DataFrame(dense, columns=[f"svd{k}" for k in range(64)])], axis=1)
        pools[part] = catboost.Pool(frame, table.y[part], cat_features=names)
    best = None
    for rate in (0.03, 0.1):
        kind = catboost.CatBoostClassifier if table.is_class else catboost.CatBoostRegressor
        model = kind(iterations=2000, learning_rate=rate, random_seed=table.seed, thread_count=options.threads,
                     verbose=False, allow_writing_files=False)
        model.fit(pools["train"], eval_set=pools["valid"], early_stopping_rounds=50)
        predict = (lambda p: model.predict_proba(p)[:, 1]) if table.is_class else model.predict
        predicted = {part: predict(pools[part]) for part in ("valid", "test")}
        if best is None or score(table, "valid", predicted["valid"]) > score(table, "valid", best["valid"]):
            best = predicted
    return best


def trident(table, options):
    folder = os.path.join(options.into, table.name, "Trident", str(table.seed))
    data, run, config = (os.path.join(folder, name) for name in ("data", "run", "config.json"))
    shutil.rmtree(run, ignore_errors=True)
    os.makedirs(data, exist_ok=True)
    for part in PARTS:
        frame = table.frame[part].copy()
        frame[table.label] = table.y[part].astype(int) if table.is_class else table.y[part]
        frame.to_csv(os.path.join(data, part + ".csv"), index=False)
    command = [options.trident, "inspect", data, "--tokenizer", options.minilm, "--label-name", table.label,
               "--write-config", config, "--force", "--task", "classification" if table.is_class else "regression"]
    subprocess.run(command + options.inspect_args.split(), check=True, capture_output=True)
    subprocess.run([options.trident, "train", "--config", config, "--data-path", data, "--output-dir", run, "--seed",
                    str(table.seed), "--quiet", "--no-report", "--cache-dir", os.path.join(folder, "cache")] +
                   options.args.split(), check=True)
    predicted = {}
    for part in ("valid", "test"):
        out = os.path.join(folder, part + ".jsonl")
        with open(out, "w", encoding="utf-8") as file:
            subprocess.run([options.trident, "predict", "--checkpoint", run, "--data-path",
                            os.path.join(data, part + ".csv"), "--json", "--quiet"] + options.predict_args.split(),
                           check=True, stdout=file)
        with open(out, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        predicted[part] = np.array([row["probabilities"]["1"] if table.is_class else row["prediction"] for row in rows])
        assert len(rows) == len(table.y[part])
    shutil.rmtree(run)
    return predicted


ROWS = {"LightGBM": lightgbm_tfidf, "CatBoost": catboost_tfidf, "Trident": trident}


def place(options, name, row, seed, part):
    return os.path.join(options.into, name, row, str(seed), part + ".npy")


def make(options, name, row, seed):
    if all(os.path.exists(place(options, name, row, seed, part)) for part in ("valid", "test")):
        return
    predicted = ROWS[row](Table(name, seed, options), options)
    for part, values in predicted.items():
        os.makedirs(os.path.dirname(place(options, name, row, seed, part)), exist_ok=True)
        np.save(place(options, name, row, seed, part), values)
    print(f"{name}, {row}, seed {seed}: done", file=sys.stderr, flush=True)


def show(options, part):
    """The table of means over seeds; returns how far Trident is above the best baseline, by table."""
    print(f"| table, {part} rows | figure | " + " | ".join(options.rows) + " |\n|---|---|" + "---|" * len(options.rows))
    gains = {}
    for name in options.tables:
        cells, means, tables = [], {}, {seed: Table(name, seed, options) for seed in options.seeds}
        for row in options.rows:
            found = [score(tables[seed], part, np.load(place(options, name, row, seed, part)))
                     for seed in options.seeds if os.path.exists(place(options, name, row, seed, part))]
            means[row] = statistics.mean(found) if found else float("nan")
            spread = f" ± {statistics.stdev(found):.4f}" if len(found) > 1 else ""
            cells.append(f"{means[row]:.4f}{spread} ({len(found)})" if found else "")
        baselines = [mean for row, mean in means.items() if row != "Trident"]
        if baselines and "Trident" in means:
            gains[name] = means["Trident"] - max(baselines)
        print(f"| {name} | {'AUC' if TABLES[name][2] else 'R2'} | " + " | ".join(cells) + " |")
    return gains


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--into", required=True)
    parser.add_argument("--data", required=True, help="folder of the tables")
    parser.add_argument("--minilm", help="all-MiniLM-L6-v2's folder, for Trident")
    parser.add_argument("--rows", default=";".join(ROWS))
    parser.add_argument("--tables", default=";".join(TABLES))
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the baselines")
    parser.add_argument("--inspect-args", default="", help="further options of trident inspect")
    parser.add_argument("--args", default="", help="further options of trident train")
    parser.add_argument("--predict-args", default="", help="further options of trident predict")
    parser.add_argument("--test", action="store_true", help="also the figures of the test rows")
    options = parser.parse_args()
    options.trident = os.path.join(options.build, "trident")
    options.rows, options.tables = options.rows.split(";"), options.tables.split(";")
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    for row in options.rows:
        for name in options.tables:
            for seed in options.seeds:
                make(options, name, row, seed)
    show(options, "valid")
    if not options.test:
        return 0
    print()
    gains = show(options, "test")
    if gains:
        print("\nabove the best baseline: " + ", ".join(f"{name} {gain:+.4f}" for name, gain in gains.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
