"""Writes tests/golden/products.safetensors: int8 products in numpy, which test_products_golden compares with.

    .venv/bin/python tools/golden_quantized.py [FILE] [--seed N]

Case K of a file has, under "K.": x [T,I] and b [O] in fp32; weight [O,I] in fp32; w [O,I] int8 and ws [O], what
quantising the weight gives; q [T,I] and s [T], what quantising x gives; y [T,O]. The arithmetic is that of
src/numbers/quantized.h and ops.def, written again in numpy: int32 sums, then three operations in fp32.
"""
import argparse
import os

import numpy as np
from safetensors.numpy import save_file

FP32 = np.float32


def scales(largest):
    """largest / 127 with 16 significant bits, ties to even; 0 for rows that are practically 0."""
    bits = (largest.astype(FP32) / FP32(127)).view(np.uint32)
    rounded = ((bits + np.uint32(0x7F) + ((bits >> np.uint32(8)) & np.uint32(1))) & np.uint32(0xFFFFFF00)).view(FP32)
    return np.where(largest < FP32(2.0**-100), FP32(0), rounded)


def quantize(x):
    """x [rows, width] -> integers and scales [rows]."""
    s = scales(np.abs(x).max(-1))
    inverse = np.where(s > 0, FP32(1) / np.where(s > 0, s, FP32(1)), FP32(0)).astype(FP32)
    q = np.clip(np.rint(x * inverse[:, None]), -127, 127)
    return q.astype(np.int8), s


def product(q, s, w, ws, b):
    """y [T,O]: sums of integers are exact, and so is their conversion to fp32 unless it rounds, as in the engine."""
    sums = q.astype(np.int32) @ w.astype(np.int32).T
    y = sums.astype(FP32) * (s[:, None] * ws[None, :])
    return y if b is None else y + b


def linear(x, w, ws, b):
    return product(*quantize(x), w, ws, b)


def add_case(tensors, key, x, weight, b):
    w, ws = quantize(weight)
    q, s = quantize(x)
    case = {"x": x, "weight": weight, "b": b, "w": w, "ws": ws, "q": q, "s": s, "y": product(q, s, w, ws, b)}
    tensors.update({f"{key}.{name}": value for name, value in case.items()})


def write(path, cases):
    """cases: (x, weight, b) each."""
    tensors = {}
    for i, case in enumerate(cases):
        add_case(tensors, i, *case)
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, path)


def random_cases(seed):
    rng = np.random.default_rng(seed)
    for T, O, I in ((1, 1, 1), (3, 5, 7), (17, 33, 64), (9, 24, 130)):
        x = rng.standard_normal((T, I)).astype(FP32) * FP32(2) ** rng.integers(-30, 30, (T, 1)).astype(FP32)
        weight = rng.standard_normal((O, I)).astype(FP32) * FP32(2) ** rng.integers(-12, 3, (O, 1)).astype(FP32)
        if T > 2:
            x[1] = 0
            x[2] *= FP32(1e-38)  # practically 0, and partly subnormal
            weight[1] = 0
        yield x, weight, rng.standard_normal(O).astype(FP32)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("file", nargs="?", default=os.path.join(here, "..", "tests", "golden", "products.safetensors"))
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    write(options.file, random_cases(options.seed))
    print(f"{options.file}: {os.path.getsize(options.file)} bytes")


if __name__ == "__main__":
    main()
