"""Writes tests/golden/averages.json: averages of the weights of 50 steps in PyTorch, for tests/unit/test_golden.c.

    tools/golden_averages.py [FOLDER]

The model is golden.py's `bert`, from its files, in double. The average is that of torch.optim.swa_utils.AveragedModel,
which begins as the initial weights: its first call would copy the weights, and is made before the first step.
"""
import os
import sys

import torch
from torch.optim.swa_utils import AveragedModel

from golden import SAMPLED, STEPS, reopen, sampled, train, write_json

DECAYS = (0.999, 0.8)  # the first never exceeds the ramp in so few steps, the second does


def run(document, model, decay):
    """The run's losses and norms, and the averaged model."""
    step = 0

    def mean(average, weight, _):
        now = min(decay, (1 + step) / (10 + step))
        return now * average + (1 - now) * weight

    def after():
        nonlocal step
        step += 1
        averaged.update_parameters(model)

    averaged = AveragedModel(model, avg_fn=mean)
    averaged.update_parameters(model)
    losses, norms = train(model, document, STEPS, after=after)
    return losses, norms, averaged.module


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "tests", "golden")
    torch.set_num_threads(1)
    runs = []
    for decay in DECAYS:
        document, model = reopen(folder, "bert")
        losses, norms, averaged = run(document, model, decay)
        runs.append({"recipe": {"optimizer": "adamw", "average_weights": f"ema:{decay}"}, "losses": losses,
                     "grad_norms": norms, "weights": sampled(averaged)})
        print(f"ema:{decay}: after {len(losses)} steps {losses[-1]:.6f}")
    document = {"of": "bert", "notes": "weights: every n-th element of each parameter's average after the last step, n "
                                       f"= its elements / {SAMPLED}, rounded up",
                "runs": runs, "made_by": f"tools/golden_averages.py, torch {torch.__version__}"}
    write_json(folder, "averages.json", document)


if __name__ == "__main__":
    main()
