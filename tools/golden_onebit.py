"""Writes tests/golden/onebit.json, onebit_lamb.json, zero_one.json and zero_one_alone.json: 1-bit Adam, 1-bit LAMB and
0/1 Adam in numpy, all copies in one process, which test_onebit compares with.

    .venv/bin/python tools/golden_onebit.py [FOLDER]

A vector of ELEMENTS weights is trained with made-up gradients, which differ between the copies and do not depend on the
weights; some elements never have one. Steps that sum gradients are AdamW: of 1-bit Adam the first FULL; of 0/1 Adam
those that update the variance. In the others momentum is exchanged as signs (Tang et al., 2021; Lu et al., 2022), in
blocks of 256 with the mean magnitude as scale, with errors fed back on both sides; 1-bit Adam's and LAMB's in units of
sqrt(v) + eps. In the last file copies step alone
when the variance is frozen, and meet. The arithmetic is that of ops.def
and src/numbers/coded.h, written again. For each step with signs the file has CRC-32 of the bytes that each copy sends
to the owners and to all, and at the end of weights, momentum and errors; of copies that step alone also their weights.
onebit_lamb.json has 1-bit LAMB's weights, second variance, averages and factors; gradients do not depend on weights, so
that its exchange is 1-bit Adam's.
"""
import os
import sys
import zlib

import numpy as np

import golden_json

F32, F64 = np.float32, np.float64
ELEMENTS, COPIES, STEPS, FULL = 5647, 3, 50, 20
LOCAL_SCALER, CLIPPER = 6, 4
FREEZE, SCALER, LATE = 30, 4, 9  # 0/1 Adam's; some elements have gradients from step LATE on, which has signs
BLOCK, GRANULE, ROW = 256, 16, 64
SIZES = [640, 384, 32, 16, 16, *[256] * 4, 384, 384, 16, 16, 16, 24, *[16] * 6, *[256] * 4, 384, 384, 16, 16, 16, 24,
         *[16] * 6, 256, 16, 192, 12, 120, 30, 10, 3]  # elements of the test's parameters
BETA1, BETA2, EPS, DECAY, LR, MAX_NORM = F32(0.9), F32(0.999), F32(1e-8), F32(0.01), F32(1e-3), F32(1)


def mix(copy, step, element):
    """A number of 32 bits, the same as in the test."""
    whole = np.uint64(2**32 - 1)
    x = (np.uint64(0x9E3779B9) * np.uint64(copy * 64 + step + 1) + np.uint64(0x85EBCA6B) * element) & whole
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(0x2C1B3C6D)) & whole
    return x ^ (x >> np.uint64(12))


K = np.arange(ELEMENTS, dtype=np.uint64)


def gradient(copy, step, late):
    """Multiples of 2^-12, so that sums are exact; none for every eighth element and for a run of 300."""
    g = ((mix(copy, step, K) % np.uint64(2001)).astype(F32) - F32(1000) + (K % np.uint64(97)).astype(F32)) / F32(4096)
    none = (K % np.uint64(8) == 5) | ((K >= 2000) & (K < 2300))
    if step < late:
        none |= (K >= 3000) & (K < 3300)
    return np.where(none, F32(0), g).astype(F32)


def windows(freeze):
    """0/1 Adam's steps, from 0, in which copies step alone, or meet, with the steps of their window: meetings at an
    interval of 2 that doubles every LOCAL_SCALER steps up to CLIPPER, and in the last step."""
    found, begin, interval, left = {}, freeze + LOCAL_SCALER, 2, LOCAL_SCALER
    for step in range(freeze + LOCAL_SCALER, STEPS):
        if (step + 1) % interval == 0 or step == STEPS - 1:
            found.update({at: (step + 1 - begin, at == step) for at in range(begin, step + 1)})
            begin = step + 1
        left -= 1
        if not left and 2 * interval <= CLIPPER:
            interval, left = 2 * interval, LOCAL_SCALER
    return found


def variance_steps():
    """Steps, from 0, that update 0/1 Adam's variance: at an interval that doubles after SCALER of them."""
    steps, interval, count = set(), 1, 0
    for step in range(1, FREEZE + 1):
        if step % interval == 0:
            steps.add(step - 1)
            count += 1
            if count == SCALER:
                interval, count = 2 * interval, 0
    return steps


def parts(count):
    each = -(-(-(-count // COPIES)) // GRANULE) * GRANULE
    return [slice(min(k * each, count), min((k + 1) * each, count)) for k in range(COPIES)]


def row_bytes(count):
    blocks = -(-(parts(count)[0].stop) // BLOCK)
    return -(-blocks * 36 // ROW) * ROW


def pack(t, mask, size):
    """One row of `size` bytes for t, and what it stands for."""
    row, value = bytearray(size), np.zeros_like(t)
    at = size // 36 * 32
    for b, i in enumerate(range(0, len(t), BLOCK)):
        x, used = t[i:i + BLOCK], mask[i:i + BLOCK]
        n = np.count_nonzero(used)
        scale = F32(np.cumsum(np.abs(x.astype(F64)))[-1] / n) if n else F32(0)
        bits = np.packbits(np.pad(x < 0, (0, BLOCK - len(x))), bitorder='little')
        row[b * 32:(b + 1) * 32] = bits.tobytes()
        row[at + 4 * b:at + 4 * b + 4] = scale.tobytes()
        value[i:i + BLOCK] = np.where(x < 0, -scale, scale)
    return bytes(row), value


def coef(squares):
    norm = np.sqrt(squares)
    return F32(F64(MAX_NORM) / (norm + 1e-6) if norm > MAX_NORM else 1)


def squares(x):
    return np.cumsum(x.astype(F64) ** 2)[-1]


def first_weights():
    return ((mix(9, 9, K) % np.uint64(4001)).astype(F32) - F32(2000)) / F32(8192)


LEAST = F32(2.0**-100)


def kept_apart(m):
    return np.where(np.abs(m) < LEAST, np.copysign(LEAST, m), m).astype(F32)


def frozen(p, m, v, rate, c1, c2):
    move = m.astype(F64) / c1 / (np.sqrt(v.astype(F64)) / np.sqrt(c2) + F64(EPS))
    return (p.astype(F64) * (1 - rate * F64(DECAY)) - rate * np.clip(np.where(m != 0, move, 0), -1, 1)).astype(F32)


def write(path, full, late, zero_one, alone):
    """full: the steps that sum gradients; zero_one: 0/1 Adam, where no element's step is larger than the rate, in these
    too, and momenta are coded as they are, not in units of their frozen deviations; alone: steps of copies by
    themselves, with those of their window, and whether they meet. Returns momentum and variance
    before each step, and the last ones."""
    p, moments = first_weights(), []
    m, v = np.zeros(ELEMENTS, F32), np.zeros(ELEMENTS, F32)
    e, s = np.zeros((COPIES, ELEMENTS), F32), np.zeros(ELEMENTS, F32)
    size, cuts, sent, sums, local = row_bytes(ELEMENTS), parts(ELEMENTS), [], [], []
    own_m, own_p = [m] * COPIES, [p] * COPIES
    b1, b2, lr = F64(BETA1), F64(BETA2), F64(LR)
    for step in range(STEPS):
        moments.append((m, v))
        g = [gradient(c, step, late) for c in range(COPIES)]
        c1 = F64(F32(1 - b1 ** (step + 1)))
        c2 = F64(F32(1 - b2 ** len([at for at in full if at <= step])))
        decayed = p.astype(F64) * (1 - lr * F64(DECAY))
        if step in full:
            whole = g[0] + g[1] + g[2]
            x = whole.astype(F64) * F64(coef(squares(whole)))
            m = (b1 * m + (1 - b1) * x).astype(F32)
            v = (b2 * v + (1 - b2) * x * x).astype(F32)
            root = np.sqrt(v.astype(F64)) / np.sqrt(c2) + F64(EPS)
            p = (decayed - (lr * np.clip(m / c1 / root, -1, 1) if zero_one else lr / c1 * m / root)).astype(F32)
            continue
        used, c = m != 0, F64(coef(sum(squares(x) for x in g)))
        unit = np.ones_like(v) if zero_one else np.sqrt(v) + EPS
        length, meets = alone.get(step, (1, True))
        share, rows = F64(F32(1 / length)), []
        for i in range(COPIES if step in alone else 0):
            grown = kept_apart((b1 * own_m[i].astype(F64) + (1 - b1) * COPIES * c * g[i].astype(F64)).astype(F32))
            own_m[i] = np.where(used, grown, own_m[i])
            e[i] = np.where(used, (e[i].astype(F64) + share * own_m[i].astype(F64) / COPIES).astype(F32), e[i])
            own_p[i] = frozen(own_p[i], own_m[i], v, lr, c1, c2)
        if not meets:
            local.append([zlib.crc32(x.tobytes()) for x in own_p])
            continue
        for i in range(COPIES):
            more = (b1 / COPIES * m.astype(F64) + (1 - b1) * c * g[i].astype(F64)) / unit.astype(F64)
            fed = (e[i].astype(F64) + more).astype(F32)
            if step in alone:
                fed = e[i]
            t = np.where(used, fed, F32(0))
            rows.append([pack(t[cut], used[cut], size) for cut in cuts])
            e[i] = np.where(used, t - np.concatenate([value for _, value in rows[i]]), F32(0))
        sent.append([zlib.crc32(b''.join(row for row, _ in rows[i])) for i in range(COPIES)])
        told, owned = [], []
        for k, cut in enumerate(cuts):
            total = rows[0][k][1]
            for i in range(1, COPIES):
                total = total + rows[i][k][1]
            t = np.where(used[cut], s[cut] + total, F32(0))
            row, value = pack(t, used[cut], size)
            s[cut] = np.where(used[cut], t - value, F32(0))
            told.append(zlib.crc32(row))
            owned.append(value)
        sums.append(told)
        m = np.where(used, kept_apart(np.concatenate(owned) * unit), m)
        p = frozen(p, m, v, lr / share, c1, c2)
        own_m, own_p = [m] * COPIES, [p] * COPIES
    made = {'elements': ELEMENTS, 'copies': COPIES, 'steps': STEPS, 'full_steps': len(full), 'sent': sent, 'sums': sums,
            'local': local, 'weights': zlib.crc32(p.tobytes()), 'momentum': zlib.crc32(m.tobytes()),
            'error': [zlib.crc32(x.tobytes()) for x in e], 'error_sum': zlib.crc32(s.tobytes())}
    golden_json.write(path, made)
    return [*moments, (m, v)]


class LambParameter:
    """The slice of a parameter: its weights, variance from reconstructed gradients, ratio's average, and factor."""

    def __init__(self, cut, p):
        self.cut, self.p, self.fresh, self.average, self.factor = cut, p[cut], np.zeros_like(p[cut]), F32(0), F32(0)

    def direction(self, m, v, c1, c2):
        return m[self.cut].astype(F64) / c1 / (np.sqrt(v[self.cut].astype(F64)) / np.sqrt(c2) + F64(EPS))

    def full(self, m, v, c1, c2):
        r = self.direction(m, v, c1, c2) + F64(DECAY) * self.p.astype(F64)
        ratio = np.sqrt(squares(self.p) / squares(r))
        self.average = F32(0.9 * F64(self.average) + (1 - 0.9) * ratio if self.average else ratio)
        self.p = (self.p.astype(F64) - F64(LR) * ratio * r).astype(F32)

    def frozen(self, old, m, v, c1, c2, c):
        b1, b2 = F64(BETA1), F64(BETA2)
        g = (m[self.cut].astype(F64) - b1 * old[self.cut].astype(F64)) / (1 - b1)
        self.fresh = (b2 * self.fresh.astype(F64) + (1 - b2) * g * g).astype(F32)
        root = np.sqrt(v[self.cut].astype(F64)) / np.sqrt(c2) + F64(EPS)
        now = np.sqrt(self.fresh.astype(F64)) / np.sqrt(c) + F64(EPS)
        most = np.max((root / now)[m[self.cut] != 0], initial=0)
        r = np.clip(self.direction(m, v, c1, c2), -1, 1)
        step = r + F64(DECAY) * self.p.astype(F64)
        part = min(1, np.sqrt(squares(r) / squares(step)))
        last = F64(self.factor or 1)
        x = min(max(part * most + (1 - part), 0.5), 4)
        self.factor = F32(min(max(x, last * (1 - 0.1)), last * (1 + 0.1)))
        ratio = min(F64(self.average) * F64(self.factor), np.sqrt(squares(self.p) / squares(step)))
        self.p = (self.p.astype(F64) - F64(LR) * ratio * step).astype(F32)


def write_lamb(path, moments):
    """1-bit LAMB (Li et al., 2021) on the parameters of SIZES, all of which decay. moments: as `write` returns them."""
    b1, b2 = F64(BETA1), F64(BETA2)
    parameters = [LambParameter(slice(int(end) - size, int(end)), first_weights())
                  for end, size in zip(np.cumsum(SIZES), SIZES)]
    for step, ((old, _), (m, v)) in enumerate(zip(moments, moments[1:])):
        c1, c2, c = (F64(F32(1 - x)) for x in (b1 ** (step + 1), b2 ** min(step + 1, FULL), b2 ** (step + 1)))
        for one in parameters:
            if step == FULL:
                one.fresh = v[one.cut]
            if step < FULL:
                one.full(m, v, c1, c2)
            else:
                one.frozen(old, m, v, c1, c2, c)
    made = {'sizes': SIZES, 'average': [float(one.average) for one in parameters],
            'factor': [float(one.factor) for one in parameters]}
    for name in ('p', 'fresh'):
        made[name] = zlib.crc32(np.concatenate([getattr(one, name) for one in parameters]).tobytes())
    golden_json.write(path, made)


if __name__ == '__main__':
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, '../tests/golden')
    signs = write(os.path.join(folder, 'onebit.json'), set(range(FULL)), 0, False, {})
    write_lamb(os.path.join(folder, 'onebit_lamb.json'), signs)
    write(os.path.join(folder, 'zero_one.json'), variance_steps(), LATE, True, {})
    write(os.path.join(folder, 'zero_one_alone.json'), variance_steps(), LATE, True, windows(FREEZE))
