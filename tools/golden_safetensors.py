#!/usr/bin/env python3
"""Writes tests/golden/reference.safetensors with the reference writer (pip install "safetensors>=0.8"): every dtype
Trident knows, a scalar, an empty tensor, names out of order. tests/unit/test_safetensors.c must read it and write the
same bytes."""
import ctypes
import pathlib
import struct

import safetensors

TENSORS = {
    "b.weight": ("float32", [2, 3], struct.pack("<6f", 0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
    "a.bias": ("float32", [3], struct.pack("<3f", -1.5, 0.25, 1e-30)),
    "scalar": ("float32", [], struct.pack("<f", 42.0)),
    "empty": ("float32", [0, 4], b""),
    "double": ("float64", [1], struct.pack("<d", 0.1)),
    # 1, -2, 65504, the smallest subnormal, infinity
    "half": ("float16", [5], struct.pack("<5H", 0x3C00, 0xC000, 0x7BFF, 0x0001, 0x7C00)),
    # 1, -2, 3.140625
    "brain": ("bfloat16", [3], struct.pack("<3H", 0x3F80, 0xC000, 0x4049)),
    "ids": ("int64", [2], struct.pack("<2q", 7, -7)),
    "counts": ("int32", [2], struct.pack("<2i", 1, 2)),
    "mask": ("uint8", [5], bytes([1, 0, 1, 1, 0])),
}

if __name__ == "__main__":
    out = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/reference.safetensors"
    out.parent.mkdir(parents=True, exist_ok=True)
    memory = {name: ctypes.create_string_buffer(data, max(len(data), 1)) for name, (_, _, data) in TENSORS.items()}
    tensors = {name: safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(memory[name]),
                                            data_len=len(data))
               for name, (dtype, shape, data) in TENSORS.items()}
    out.write_bytes(safetensors.serialize(tensors, metadata={"format": "pt"}))
    print(out, out.stat().st_size, "bytes, safetensors", safetensors.__version__)
