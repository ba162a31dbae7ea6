"""Programs like attention: one kernel each way of linear memory, and the values of float64."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.bench.attention_programs import PROGRAMS, kernels_of
from treadle.engine.counters import GlobalCounters
from treadle.errors import DeviceError
from treadle.target import parse_target

TARGETS = {
    "CPU": (parse_target("x86-64-v4"), dtypes.float32),
    "CUDA": (parse_target("sm_80"), dtypes.bfloat16),
    "HOPPER": (parse_target("sm_90a"), dtypes.bfloat16),
    "RDNA3": (parse_target("gfx1100"), dtypes.float16),
    "RDNA4": (parse_target("gfx1201"), dtypes.float16),
    "CDNA4": (parse_target("gfx950"), dtypes.bfloat16),
    "METAL": (parse_target("apple7"), dtypes.float16),
}
# Kernels of the result, then of the result with its gradients. Rows and keys of linear attention
# have no product in common. What has one gradient alone computes the statistics of rows beside it.
# A loss is summed over rows by a kernel of its own, and its targets are counted by one. Sums of
# heads that share keys are added up by two more, after those of keys and values by one or two.
ONE_EACH_WAY = 1, 2
COUNTS = {
    "linear, causal": (1, 4),
    "gradient of queries alone": (1, 1),
    "gradient of keys alone": (1, 3),
    "logsumexp of a projection": (1, 3),
    "cross-entropy of a projection": (2, 6),
    "contrastive loss": (2, 5),
    "grouped queries": (1, 5),
}
OF_CPU = {"grouped queries": (1, 4)}


def counts_of(name, where):
    counts = COUNTS | OF_CPU if where == "CPU" else COUNTS
    return counts.get(name, ONE_EACH_WAY)


@pytest.mark.parametrize("where", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_few_and_what_they_hand_on_is_linear_in_tokens(name, where):
    target, dtype = TARGETS[where]
    for is_step, count in zip((False, True), counts_of(name, where), strict=True):
        few, many = (kernels_of(name, n, target, dtype, is_step) for n in (512, 1024))
        assert few.count == many.count == count
        assert many.handed_on <= 2.01 * few.handed_on


def results(name, tokens, device, dtype):
    """The result of a program of drawn inputs and its gradients, as float64."""
    rng = np.random.default_rng(sum(map(ord, name)))

    def make(*shape):
        values = Tensor(rng.standard_normal(shape).astype(np.float32), device="CPU")
        made = values.cast(dtypes.bfloat16).cast(dtype).to(device).realize()
        made.requires_grad = True
        return made

    made = PROGRAMS[name](tokens, make)
    arriving = make(*made.result.shape).detach() if made.result.shape else None
    made.result.backward(arriving)
    wanted = [made.result, *(t.grad for t in made.wanted)]
    before = GlobalCounters.kernel_count
    Tensor.realize(*wanted)
    count = GlobalCounters.kernel_count - before
    return count, [t.detach().to("CPU").cast(dtypes.float64).numpy() for t in wanted]


DEVICES = [
    "CPU", "CUDA", "CUDA:PTX", "CUDA:PTX:sm_90a", "AMD:LLVM:gfx1100", "AMD:LLVM:gfx1201",
    "AMD:LLVM:gfx942", "METAL",
]  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_the_reference_in_float64(name, device):
    """Of tokens that are no whole tiles; blocks of rows and tiles of keys are several."""
    tokens, dtype = (520, dtypes.float32) if device == "CPU" else (150, dtypes.bfloat16)
    try:
        count, ours = results(name, tokens, device, dtype)
    except DeviceError as error:
        pytest.skip(str(error))
    assert count == counts_of(name, device.partition(":")[0])[1]
    _, expected = results(name, tokens, "REF", dtypes.float64)
    # Weights and results are rounded to 8 bits on matrix units.
    near = 2**-18 if device == "CPU" else 2**-7
    for mine, wanted in zip(ours, expected, strict=True):
        assert np.linalg.norm(mine - wanted) <= near * np.linalg.norm(wanted)
