"""Dense layers of PyTorch with 8-bit factors: the reference of FP8 training in bench/torch_step.py.

Each call scales its tensors by their own largest values (dynamic, one scale a tensor): e4m3 for activations and
weights, e5m2 for gradients. Hopper multiplies 8-bit factors only where both are contiguous along the summed dimension,
so gradients need transposed copies, which torch.compile forms with the casts. Sums are those of the matrix units (fast
accumulation), as Trident's.
"""
import torch
from torch import nn

FORWARD, BACKWARD = torch.float8_e4m3fn, torch.float8_e5m2
MULTIPLE = 16  # of each side of a product


def quantize(x, dtype):
    """(x / scale in 8 bits, scale)."""
    most = torch.finfo(dtype).max
    scale = torch.clamp(x.detach().abs().amax().float(), min=1e-12) / most
    return torch.clamp(x.float() / scale, -most, most).to(dtype), scale


def product(a, a_scale, b, b_scale, bias=None, dtype=torch.bfloat16):
    """a [m, k] b [k, n]; a contiguous along its rows, b along its columns."""
    return torch._scaled_mm(a, b, scale_a=a_scale, scale_b=b_scale, bias=bias, out_dtype=dtype, use_fast_accum=True)


class Dense(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        x8, x_scale = quantize(x, FORWARD)
        w8, w_scale = quantize(weight, FORWARD)
        ctx.save_for_backward(x8, x_scale, w8, w_scale)
        ctx.dtype = x.dtype
        return product(x8, x_scale, w8.t(), w_scale, bias.to(torch.bfloat16))

    @staticmethod
    def backward(ctx, dy):
        x8, x_scale, w8, w_scale = ctx.saved_tensors
        dy8, dy_scale = quantize(dy, BACKWARD)
        dx = product(dy8, dy_scale, w8.t().contiguous().t(), w_scale)
        dw = product(dy8.t().contiguous(), dy_scale, x8.t().contiguous().t(), x_scale, dtype=torch.float32)
        return dx.to(ctx.dtype), dw, dy.float().sum(0)


class Linear8(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.weight, self.bias = of.weight, of.bias

    def forward(self, x):
        made = Dense.apply(x.reshape(-1, x.shape[-1]), self.weight, self.bias)
        return made.reshape(*x.shape[:-1], -1)


def convert(module):
    """Replaces the dense layers inside `module` whose sides suit; returns how many."""
    done = 0
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and child.bias is not None and \
                not any(side % MULTIPLE for side in child.weight.shape):
            setattr(module, name, Linear8(child))
            done += 1
        else:
            done += convert(child)
    return done
