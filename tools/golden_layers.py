"""Writes tests/golden/layers.json: 50 steps with progressive layer dropping in PyTorch, for tests/unit/test_golden.c.

    tools/golden_layers.py [FOLDER]

The models are those of golden.py, from their files. The gates are drawn here from their definition (base/random.h,
plan/layer_gates.h), so the test compares them, too. A layer that is left out is not called; of one that is kept, both
sub-layers are divided by the probability that it is. Gradients of layers that were left out are 0, not absent: the
optimizer's moments decay.
"""
import json
import math
import os
import sys

import torch
from safetensors.torch import load_file

from golden import RECIPE, STEPS, forward_loss, write_json
from model import Trimodal, make_optimizer, rate_factor

RUNS = (
    {"of": "trimodal", "theta": 0.4, "gamma": 0.08, "seed": 11},
    {"of": "bert", "theta": 0.2, "gamma": 1.0, "seed": 3},
)
MASK = 0xFFFFFFFF


def xxh32(data, seed=0):
    """xxHash, 32 bits: for names."""
    p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393

    def rotate(x, r):
        return ((x << r) | (x >> (32 - r))) & MASK

    def word(at):
        return int.from_bytes(data[at:at + 4], "little")

    at = 0
    if len(data) >= 16:
        lanes = [(seed + p1 + p2) & MASK, (seed + p2) & MASK, seed, (seed - p1) & MASK]
        while at + 16 <= len(data):
            for lane in range(4):
                lanes[lane] = rotate((lanes[lane] + word(at + 4 * lane) * p2) & MASK, 13) * p1 & MASK
            at += 16
        h = sum(rotate(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18))) & MASK
    else:
        h = (seed + p5) & MASK
    h = (h + len(data)) & MASK
    while at + 4 <= len(data):
        h = rotate((h + word(at) * p3) & MASK, 17) * p4 & MASK
        at += 4
    for byte in data[at:]:
        h = rotate((h + byte * p5) & MASK, 11) * p1 & MASK
    h = (h ^ (h >> 15)) * p2 & MASK
    h = (h ^ (h >> 13)) * p3 & MASK
    return h ^ (h >> 16)


def philox(key, counter):
    """Philox4x32-10."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & MASK, (a >> 32) ^ c3 ^ k1, a & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def keep_of(run, layer, layers, step):
    theta = (1 - run["theta"]) * math.exp(-run["gamma"] * step) + run["theta"]
    return 1 - layer / layers * (1 - theta)


def gates_of(run, model, step):
    """[(layer module, open, probability)], of all layers in Trident's order."""
    gates = []
    for name in model.branches:
        layers = getattr(model, name).encoder.layer
        for i, layer in enumerate(layers):
            keep = keep_of(run, i + 1, len(layers), step)
            drawn = philox((run["seed"], xxh32(f"gate {name}.layer.{i}".encode())), (step, 0, 0, 3))[0]
            gates.append((layer, drawn < keep * 2**32, keep))
    return gates


def make_droppable(layer):
    """After this, layer.open and layer.keep say what it does."""
    plain, layer.open, layer.keep = layer.forward, True, 1.0

    def forward(hidden_states, *args, **more):
        return plain(hidden_states, *args, **more) if layer.open else hidden_states

    layer.forward = forward
    for part in (layer.attention.output, layer.output):
        def scaled(hidden_states, input_tensor, part=part):
            hidden_states = part.dropout(part.dense(hidden_states)) / layer.keep
            return part.LayerNorm(hidden_states + input_tensor)
        part.forward = scaled


def train(model, golden, run):
    optimizer = make_optimizer(model, RECIPE["lr"], RECIPE["weight_decay"], RECIPE["no_decay"], RECIPE)
    losses, norms, closed = [], [], []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RECIPE["lr"] * rate_factor(step, RECIPE["warmup_steps"], RECIPE["total_steps"])
        gates = gates_of(run, model, step)
        for layer, is_open, keep in gates:
            layer.open, layer.keep = is_open, keep
        closed.append([i for i, gate in enumerate(gates) if not gate[1]])
        optimizer.zero_grad()
        batch = golden["batches"][step % len(golden["batches"])]
        _, loss = forward_loss(model, golden["config"], [golden["samples"][i] for i in batch])
        loss.backward()
        for parameter in model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), RECIPE["max_grad_norm"]).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms, closed


def make(folder):
    runs = []
    for run in RUNS:
        with open(os.path.join(folder, run["of"] + ".json"), encoding="utf-8") as file:
            golden = json.load(file)
        weights = load_file(os.path.join(folder, run["of"] + ".safetensors"))
        model = Trimodal(golden["config"]).eval()
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                parameter.copy_(weights[key])
        model = model.double()
        for name in model.branches:
            for layer in getattr(model, name).encoder.layer:
                make_droppable(layer)
        losses, norms, closed = train(model, golden, run)
        runs.append({**run, "losses": losses, "grad_norms": norms, "closed": closed})
        print(f"{run}: {sum(map(len, closed))} layers left out; after {STEPS} steps {losses[-1]:.6f}")
    write_json(folder, "layers.json", {"runs": runs, "made_by": f"tools/golden_layers.py, torch {torch.__version__}"})


if __name__ == "__main__":
    torch.set_num_threads(1)
    make(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests",
                                                            "golden"))
