"""Columns of a table as vectors, again: preprocessing with numpy, the model's part with torch.

Piecewise linear encoding and periodic embeddings are those of Gorishniy et al., "On Embeddings for Numerical Features
in Tabular Deep Learning" (2022). Written from docs/guide/data.md, not from Trident's code; golden.py uses it.
"""
import math
import random

import numpy
import torch
from torch import nn

FAR = 1.0  # widths of an outer bin that places go on beyond it


def are_vectors(config):
    return config.get("tabular") == "embedded" or config.get("fusion") == "columns"


def make_table(rows, seed):
    """Rows of five columns, as text: plain numbers; few values, most of them 0, some missing; a constant; huge
    numbers; categories, some missing."""
    rng = random.Random(seed)
    return [[repr(round(rng.gauss(40, 12), 2)),
             "" if i % 5 == 3 else str(max(0, int(rng.expovariate(0.5)) - 2)),
             "7",
             repr(rng.gauss(0, 1) * 1e30),
             "" if i % 11 == 5 else rng.choice(["red", "green", "blue", "Ü"])] for i in range(rows)]


def probes(far=True):
    """Rows unlike those of training: beyond the range, far or by little (sines of huge angles are noise in fp32),
    between values, missing, unknown categories."""
    return [["1e9" if far else "95", "1.5", "8", "-1e38" if far else "-4e30", "purple"], ["-5", "", "7", "0", ""],
            ["40", "1000" if far else "9", "6.5", "1e30", "blue"], ["", "0", "", "", "Red"]]


def fit_number(name, texts, bins):
    present = numpy.array([float(text) for text in texts if text])
    fill = float(numpy.median(present))
    filled = numpy.array([float(text) if text else fill for text in texts])
    deviation = float(filled.std()) or 1.0
    column = {"name": name, "missing": texts.count(""), "transform": "standard", "fill": fill,
              "mean": float(filled.mean()), "deviation": deviation}
    if bins:
        edges = numpy.unique(present)
        if len(edges) > bins + 1:
            edges = numpy.quantile(present, numpy.linspace(0, 1, bins + 1))
        edges = numpy.unique(((edges - column["mean"]) / deviation).astype(numpy.float32)).astype(float)
        column["edges"] = edges.tolist() if len(edges) > 1 else [edges[0], edges[0] + max(1.0, abs(edges[0]))]
    return column


def fit(config, table):
    """The preprocessing file of a table; `label`, `text` and `note` as in golden.py."""
    bins = config["numeric_bins"] if config["numeric_embedding"] == "piecewise" else 0
    columns = []
    for i, name in enumerate(config["tab_field_list"]):
        texts = [row[i] for row in table]
        if name in config["cat_field_list"]:
            known = sorted({text for text in texts if text}, key=lambda text: text.encode())
            columns.append({"name": name, "missing": texts.count(""), "categories": known})
        else:
            columns.append(fit_number(name, texts, bins))
    return {"version": 3, "label_name": config["label_name"], "label_by_index": True,
            "labels": [str(i) for i in range(config["num_classes"])], "primary_text": ["text"],
            "secondary_text": ["note"] if config.get("secondary_text_name") else [],
            "decimal_mark": ".", "missing_values": [], "columns": columns, "vectors": config["numeric_embedding"]}


def transformed(column, text):
    value = float(text) if text else column["fill"]
    return (value - column["mean"]) / column["deviation"]


def encode(column, text):
    """Piecewise linear encoding: a number for each bin."""
    edges, x = column["edges"], transformed(column, text)
    low, high = edges[0] - FAR * (edges[1] - edges[0]), edges[-1] + FAR * (edges[-1] - edges[-2])
    x, bins = min(max(x, low), high), len(edges) - 1
    out = []
    for t in range(1, bins + 1):
        if x < edges[t - 1] and t > 1:
            out.append(0.0)
        elif x >= edges[t] and t < bins:
            out.append(1.0)
        else:
            out.append((x - edges[t - 1]) / (edges[t] - edges[t - 1]))
    return out


def is_missing(column, text):
    """Whether the column has a row for a missing number, and this is one."""
    return not text and column["missing"] > 0


def number_of(preprocessing, column, text):
    """What the model is fed: the sum of the encoding, the transformed number or a category's index; None: missing."""
    if "categories" in column:
        known = column["categories"]
        return known.index(text) if text in known else len(known)
    if is_missing(column, text):
        return None
    return sum(encode(column, text)) if preprocessing["vectors"] == "piecewise" else transformed(column, text)


class Table(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*shape))


class Bias(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.bias = nn.Parameter(torch.empty(*shape))


class EmbeddedTabular(nn.Module):
    """Each column as a vector; these side by side -> Linear -> ReLU. With fusion columns they are all, as wide as a
    text's projection."""

    def __init__(self, config, preprocessing, common):
        super().__init__()
        self.config, self.preprocessing = config, preprocessing
        columns, n = preprocessing["columns"], config.get("numeric_frequencies")
        fused = config.get("fusion") == "columns"
        dim = common if fused else config["column_dim"]
        numbers = [c for c in columns if "categories" not in c]
        self.periodic = preprocessing["vectors"] == "periodic"
        self.rows = [len(c["categories"]) if "categories" in c else
                     (2 * n if self.periodic else len(c["edges"]) - 1) + (c["missing"] > 0) for c in columns]
        self.numbers = Table(sum(r for r, c in zip(self.rows, columns, strict=True) if c in numbers), dim)
        if self.periodic:
            self.frequencies = Table(len(numbers), n)
        self.categories = Table(sum(r for r, c in zip(self.rows, columns, strict=True) if c not in numbers), dim)
        self.columns = Bias(len(columns), dim)
        self.linear = None if fused else nn.Linear(len(columns) * dim, common)

    def factors(self, column, text, frequency, rows):
        """Of the column's rows, [rows]."""
        if is_missing(column, text):
            return torch.eye(rows, dtype=frequency.dtype)[-1]
        if self.periodic:
            angle = 2 * math.pi * frequency * transformed(column, text)
            made = torch.cat([torch.sin(angle), torch.cos(angle)])
        else:
            made = torch.tensor(encode(column, text), dtype=frequency.dtype)
        return torch.cat([made, made.new_zeros(rows - len(made))])

    def vector(self, c, text, at):
        column, rows = self.preprocessing["columns"][c], self.rows[c]
        if "categories" in column:
            known = column["categories"]
            row = self.categories.weight[at["categories"] + known.index(text)] if text in known else 0
            return self.columns.bias[c] + row
        frequency = self.frequencies.weight[at["frequencies"]] if self.periodic else self.numbers.weight
        weight = self.numbers.weight[at["numbers"]:at["numbers"] + rows]
        return torch.relu(self.columns.bias[c] + self.factors(column, text, frequency, rows) @ weight)

    def forward(self, fields):
        """fields: a list of texts for each sample."""
        made = []
        for row in fields:
            at, vectors = {"numbers": 0, "categories": 0, "frequencies": 0}, []
            for c, text in enumerate(row):
                vectors.append(self.vector(c, text, at))
                category = "categories" in self.preprocessing["columns"][c]
                at["categories" if category else "numbers"] += self.rows[c]
                at["frequencies"] += not category
            made.append(torch.cat(vectors))
        vectors = torch.stack(made)
        return vectors if self.linear is None else torch.relu(self.linear(vectors))


class GatedFusion(nn.Module):
    """Branches are scaled by gates that all of them decide on, then fused as without."""

    def __init__(self, fusion, width):
        super().__init__()
        self.dense, self.dropout, self.output = fusion.dense, fusion.dropout, fusion.output
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        x = x * torch.sigmoid(self.gate(x))
        return self.output(self.dropout(torch.relu(self.dense(x))))


class ColumnFusion(nn.Module):
    """Texts and columns attend to each other in PyTorch's pre-norm layers; then the first text's token is fused as
    without."""

    def __init__(self, fusion, config):
        super().__init__()
        self.dense, self.dropout, self.output = fusion.dense, fusion.dropout, fusion.output
        self.width = config["hidden_common_dim"]
        self.layer = nn.ModuleList(
            nn.TransformerEncoderLayer(self.width, config["fusion_heads"], 2 * self.width,
                                       config.get("fusion_dropout", 0.1), "gelu", batch_first=True, norm_first=True)
            for _ in range(config["fusion_layers"]))
        self.norm = nn.LayerNorm(self.width)

    def forward(self, x):
        """x [batch, tokens * width]"""
        x = x.unflatten(1, (-1, self.width))
        for layer in self.layer:
            x = layer(x)
        return self.output(self.dropout(torch.relu(self.dense(self.norm(x[:, 0])))))
