"""Attention of PyTorch's libraries on a GPU, forward and backward, bf16, texts of equal length: the
reference for Trident's kernels.

    python3 bench/cudnn.py [--dropout 0]
    compare with  build/bench/cuda_kernels CASE --dropout 0 attention attention_din

PyTorch does not pass dropout to cuDNN, so cuDNN is timed only without it. Prints, for each case and library,
milliseconds of a forward and of a backward pass: medians of batches of calls between two events, as in cuda_kernels.
"""
import argparse
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

CASES = {"base128": (256, 12, 128, 64), "base512": (64, 12, 512, 64), "large512": (32, 16, 512, 64),
         "oneb": (16, 16, 1024, 128)}
LIBRARIES = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
RUNS, BATCH = 9, 10


def milliseconds(call):
    times = []
    for turn in range(RUNS + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(BATCH):
            call()
        end.record()
        torch.cuda.synchronize()
        if turn:
            times.append(begin.elapsed_time(end) / BATCH)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dropout", type=float, default=0.0)
    options = parser.parse_args()
    for case, (samples, heads, length, width) in CASES.items():
        # Projections as one product leaves them: [samples, length, 3, heads, width], read in place.
        qkv = torch.randn(samples, length, 3, heads, width, device="cuda", dtype=torch.bfloat16).requires_grad_()
        q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
        gradient = torch.randn(samples, heads, length, width, device="cuda", dtype=torch.bfloat16)
        for name, library in LIBRARIES.items():
            attend = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=options.dropout)
            try:
                with sdpa_kernel(library):
                    forward = milliseconds(attend)
                    y = attend()
                    backward = milliseconds(lambda: torch.autograd.grad(y, (q, k, v), gradient, retain_graph=True))
            except RuntimeError as error:
                print(f"{case:10} {name:6} not available: {str(error).splitlines()[0]}")
                continue
            print(f"{case:10} {name:6} forward {forward:.4f} ms  backward {backward:.4f} ms", flush=True)


if __name__ == "__main__":
    main()
