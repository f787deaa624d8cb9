"""Writes tests/golden/rates.json, for tests/unit/test_golden.c: schedules of learning rates by transformers, and steps
of PyTorch with a rate for each layer and with frozen parameters.

    tools/golden_rates.py [FOLDER]

The models are those of golden.py, from their files. `schedules`: factors of the learning rate, of each step of
`steps`. `runs`: training with the options of `recipe` beyond those of the model's recipe.
"""
import os
import re
import sys

import torch
import transformers

from golden import RECIPE, reopen, take_steps, write_json
from model import Lamb

STEPS = 30
SCHEDULES = [
    {"lr_schedule": kind, "lr_power": power, "warmup_steps": warmup, "steps": steps}
    for kind, power in (("linear", 1.0), ("cosine", 1.0), ("constant", 1.0), ("polynomial", 1.0), ("polynomial", 2.5))
    for warmup, steps in ((0, 7), (1, 7), (3, 10), (7, 7))
]
RUNS = (
    {"of": "trimodal", "recipe": {"layer_lr_decay": 0.6, "head_lr": 5e-3, "lr_schedule": "cosine"}},
    {"of": "trimodal", "recipe": {"freeze": ["layers=1"], "layer_lr_decay": 0.8, "lr_schedule": "constant",
                                  "optimizer": "sgd", "lr": 0.05, "momentum": 0.9}},
    {"of": "bert", "recipe": {"freeze": ["embeddings"], "layer_lr_decay": 0.7, "head_lr": 0.03, "optimizer": "lamb",
                              "lr": 0.02, "adam_eps": 1e-6}},
    {"of": "bert", "recipe": {"freeze": ["embeddings", "layers=all"], "head_lr": 5e-3}},
    {"of": "mpnet", "recipe": {"freeze": ["embeddings", "layers=1"], "head_lr": 4e-3, "lr_schedule": "polynomial",
                               "lr_power": 2.0}},
)


def factors(schedule):
    """The factor of each step's learning rate, as a function."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    warmup, steps = schedule["warmup_steps"], schedule["steps"]
    made = {
        "linear": lambda: transformers.get_linear_schedule_with_warmup(optimizer, warmup, steps),
        "cosine": lambda: transformers.get_cosine_schedule_with_warmup(optimizer, warmup, steps),
        "constant": lambda: transformers.get_constant_schedule_with_warmup(optimizer, warmup),
        "polynomial": lambda: transformers.get_polynomial_decay_schedule_with_warmup(
            optimizer, warmup, steps, lr_end=0.0, power=schedule["lr_power"]),
    }[schedule["lr_schedule"]]()
    return made.lr_lambdas[0]


def place_of(name):
    """The layer that a parameter belongs to; -1: the embeddings and the table of distances; None: above the layers."""
    layer = re.search(r"\.(?:layer|layers)\.(\d+)\.", name)
    if layer:
        return int(layer.group(1))
    return -1 if ".embeddings." in name or ".relative_attention_bias." in name else None


def rate_of(name, config, recipe):
    """The learning rate of a parameter; None: it is frozen."""
    place, branch, frozen = place_of(name), name.split(".")[0], recipe.get("freeze", [])
    if place is None:
        family = config["primary_encoder"]["model_type"]
        is_new = ".projection." in name or branch in ("tabular", "fusion")
        is_new = is_new or (".pooler." in name and family not in ("bert", "roberta", "xlm-roberta", "mpnet"))
        return recipe["head_lr"] if is_new and "head_lr" in recipe else recipe["lr"]
    depth = config[branch + "_encoder"]["num_hidden_layers"]
    counts = [text.split("=")[1] for text in frozen if text.startswith("layers=")] or ["0"]
    layers = depth if counts[0] == "all" else int(counts[0])
    if ("embeddings" in frozen) if place < 0 else place < layers:
        return None
    return recipe["lr"] * recipe.get("layer_lr_decay", 1.0) ** (depth - 1 - place)


def groups_of(model, config, recipe):
    groups = {}
    for name, parameter in model.named_parameters():
        rate = rate_of(name, config, recipe)
        parameter.requires_grad_(rate is not None)
        decays = not any(pattern in name for pattern in recipe["no_decay"])
        if rate is not None:
            groups.setdefault((rate, decays), []).append(parameter)
    return [{"params": parameters, "rate": rate, "weight_decay": recipe["weight_decay"] if decays else 0.0,
             **({} if decays or recipe.get("optimizer") != "lamb" else {"adapts": False})}
            for (rate, decays), parameters in groups.items()]


def train(model, document, recipe):
    groups = groups_of(model, document["config"], recipe)
    if recipe.get("optimizer") == "sgd":
        optimizer = torch.optim.SGD(groups, lr=recipe["lr"], momentum=recipe["momentum"])
    else:
        kind = Lamb if recipe.get("optimizer") == "lamb" else torch.optim.AdamW
        optimizer = kind(groups, lr=recipe["lr"], betas=(0.9, 0.999), eps=recipe["adam_eps"])
    factor = factors({"lr_schedule": "linear", "lr_power": 1.0, **recipe, "steps": recipe["total_steps"]})
    return take_steps(model, document, STEPS, recipe, optimizer, factor)


def make(folder):
    runs = []
    for run in RUNS:
        document, model = reopen(folder, run["of"])
        losses, norms = train(model, document, {**RECIPE, **run["recipe"]})
        runs.append({**run, "losses": losses, "grad_norms": norms})
        print(f"{run}: after {len(losses)} steps {losses[-1]:.6f}")
    schedules = [{**one, "factors": [factors(one)(step) for step in range(one["steps"])]} for one in SCHEDULES]
    made_by = f"tools/golden_rates.py, torch {torch.__version__}, transformers {transformers.__version__}"
    write_json(folder, "rates.json", {"schedules": schedules, "runs": runs, "made_by": made_by})


if __name__ == "__main__":
    torch.set_num_threads(1)
    make(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests",
                                                            "golden"))
