"""Drawn programs like attention on matrix units: layouts, masks, sizes; values and gradients."""

from __future__ import annotations

import random
from contextlib import nullcontext

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.engine.counters import GlobalCounters
from treadle.errors import DeviceError

from ..choices.running import small_device

DEVICES = [
    "CUDA:PTX:sm_90a", "CUDA:NVRTC:sm_90a", "CUDA:PTX", "AMD:LLVM:gfx1100", "AMD:LLVM:gfx1201",
    "METAL",
]  # fmt: skip
WIDTHS = (16, 32, 48, 64, 64, 80, 128)
COUNTS = (64, 65, 100, 128, 150, 200, 257, 300)


def _allowed(kind, rows, keys):
    """Which keys a row takes; at least one."""
    row, key = np.ogrid[:rows, :keys]
    last = row + keys - rows if keys >= rows else row * keys // rows
    masks = {
        "none": np.ones((rows, keys), bool),
        "causal": key <= last,
        "window": (key <= last) & (key > last - 40),
        "first": key < max(1, keys // 3),
    }
    return masks[kind]


def _drawn(seed):
    draw = random.Random(seed)
    batch = draw.choice([(), (2,), (2, 2)])
    rows, keys = draw.choice(COUNTS), draw.choice(COUNTS)
    width = draw.choice(WIDTHS)
    return {
        "shapes": [(*batch, n, w) for n, w in ((rows, width), (keys, width),
                                               (keys, draw.choice((width, width, 32))))],
        "turned": [draw.random() < 0.25 for _ in range(3)],
        "dtype": draw.choice([dtypes.float16, dtypes.bfloat16]),
        "mask": draw.choice(["none", "none", "causal", "window", "first"]),
        "weights": draw.choice(["softmax", "softmax", "softmax", "sigmoid", "square"]),
        "bias": draw.random() < 0.25,
        "has_gradients": draw.random() < 0.6,
        "fills_tiles": draw.random() < 0.5,
    }  # fmt: skip


def _tensor(device, shape, dtype, is_turned, seed):
    """Numbers of so many bits, whose last two axes change places in memory if it `is_turned`."""
    shape = (*shape[:-2], shape[-1], shape[-2]) if is_turned else shape
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    made = Tensor(values, device="CPU").cast(dtype).to(device).realize()
    made.requires_grad = True
    return made, (made.transpose(-1, -2) if is_turned else made)


def _results(drawn, device, dtype=None):
    """The result and the gradients of all factors, as float64, and how many kernels there were."""
    given = enumerate(zip(drawn["shapes"], drawn["turned"], strict=True))
    tensors = [_tensor(device, shape, drawn["dtype"], turned, n) for n, (shape, turned) in given]
    own, used = zip(*tensors, strict=True)
    q, k, v = used if dtype is None else (t.cast(dtype) for t in used)
    rows, keys = q.shape[-2], k.shape[-2]
    scores = (q @ k.transpose(-1, -2)).float() if dtype is None else q @ k.transpose(-1, -2)
    scores = scores / np.sqrt(q.shape[-1])
    if drawn["bias"]:
        scores = scores + Tensor.arange(keys, device=device).cast(scores.dtype) / keys
    mask = Tensor(_allowed(drawn["mask"], rows, keys), device=device)
    if drawn["weights"] == "softmax":
        weights = mask.where(scores, -np.inf).softmax(-1)
    elif drawn["weights"] == "sigmoid":
        weights = mask.where(scores.sigmoid(), 0.0)
    else:
        weights = mask.where(scores.relu().square(), 0.0)
    out = weights.cast(v.dtype) @ v
    wanted = [out]
    if drawn["has_gradients"]:
        arriving, _ = _tensor(device, out.shape, drawn["dtype"], False, 9)
        out.backward(arriving.detach().cast(out.dtype))
        wanted += [t.grad for t in own]
    before = GlobalCounters.kernel_count
    Tensor.realize(*wanted)
    count = GlobalCounters.kernel_count - before
    return count, [t.detach().to("CPU").cast(dtypes.float64).numpy() for t in wanted]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(40))
def test_values_and_gradients_are_those_of_float64(seed, device):
    drawn = _drawn(seed)
    try:
        with small_device(device) if drawn["fills_tiles"] else nullcontext():
            _, ours = _results(drawn, device)
    except DeviceError as error:
        pytest.skip(str(error))
    _, expected = _results(drawn, "REF", dtypes.float64)
    near = 2**-7 if drawn["dtype"] is dtypes.bfloat16 else 2**-10
    for mine, wanted in zip(ours, expected, strict=True):
        assert np.isfinite(mine).all()
        assert np.linalg.norm(mine - wanted) <= near * np.linalg.norm(wanted)
