"""Writes tests/golden/averages.json: averages of the weights of 50 steps in PyTorch, for tests/test_golden.c.

    tools/golden_averages.py [FOLDER]

The model is golden.py's `bert`, from its files, in double. The average is that of torch.optim.swa_utils.AveragedModel,
which begins as the initial weights: its first call would copy the weights, and is made before the first step.
"""
import json
import os
import sys

import torch
from torch.optim.swa_utils import AveragedModel

from golden import RECIPE, SAMPLED, STEPS, forward_loss, reopen
from model import make_optimizer, rate_factor

DECAYS = (0.999, 0.8)  # the first never exceeds the ramp in so few steps, the second does


def train(document, model, decay):
    """The run's losses and norms, and the averaged model."""
    step = 0

    def mean(average, weight, _):
        now = min(decay, (1 + step) / (10 + step))
        return now * average + (1 - now) * weight

    averaged = AveragedModel(model, avg_fn=mean)
    averaged.update_parameters(model)
    optimizer = make_optimizer(model, RECIPE["lr"], RECIPE["weight_decay"], RECIPE["no_decay"], RECIPE)
    losses, norms, batches = [], [], document["batches"]
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = RECIPE["lr"] * rate_factor(step - 1, RECIPE["warmup_steps"], RECIPE["total_steps"])
        optimizer.zero_grad()
        samples = [document["samples"][i] for i in batches[(step - 1) % len(batches)]]
        _, loss = forward_loss(model, document["config"], samples)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), RECIPE["max_grad_norm"]).item())
        optimizer.step()
        losses.append(loss.item())
        averaged.update_parameters(model)
    return losses, norms, averaged.module


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "tests", "golden")
    torch.set_num_threads(1)
    runs = []
    for decay in DECAYS:
        document, model = reopen(folder, "bert")
        losses, norms, averaged = train(document, model, decay)
        final = {}
        for key, parameter in averaged.named_parameters():
            flat = parameter.detach().flatten()
            final[key] = flat[::max(1, -(-flat.numel() // SAMPLED))].tolist()
        runs.append({"recipe": {"optimizer": "adamw", "average_weights": f"ema:{decay}"}, "losses": losses,
                     "grad_norms": norms, "weights": final})
        print(f"ema:{decay}: after {len(losses)} steps {losses[-1]:.6f}")
    document = {"of": "bert", "notes": "weights: every n-th element of each parameter's average after the last step, n "
                                       f"= its elements / {SAMPLED}, rounded up",
                "runs": runs, "made_by": f"tools/golden_averages.py, torch {torch.__version__}"}
    with open(os.path.join(folder, "averages.json"), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
