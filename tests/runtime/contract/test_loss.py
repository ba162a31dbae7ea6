"""A device that is lost says so by its name from then on, and takes nothing else with it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.devices import Opened
from treadle.errors import DeviceError

from .kernels import COUNT, Kernel, get, put
from .losing import LOSING

X = np.arange(COUNT, dtype=np.int32)


def test_a_lost_device_is_named_and_others_go_on(driven: Opened, kernel: Kernel) -> None:
    if driven.name not in LOSING:
        pytest.skip(f"{driven.name}: losing.py has no seam through which it is lost")
    _lose_one(driven.name, kernel)
    gc.collect()
    other = driven.runtime
    np.testing.assert_array_equal(get(other, put(other, X)), X)
    assert (Tensor([1.0], device=driven.name) + 1).item() == 2
    assert (Tensor([1.0], device="CPU") + 1).item() == 2


def _lose_one(name: str, kernel: Kernel) -> None:
    """A device that is lost refuses all that is asked of it, and goes without a trace."""
    ways = LOSING[name]
    lost = ways.open(name)
    library, x, a = kernel.load(lost), put(lost, X), lost.allocator.alloc(4 * COUNT)
    calls = lost.call_list([kernel.launch(library, x, a, 1)])
    calls.run()
    ways.lose(lost)
    uses = (
        calls.run, lost.synchronize, lambda: get(lost, x), lambda: put(lost, X),
        lambda: lost.run([kernel.launch(library, x, a, 1)]), lambda: kernel.load(lost),
        lambda: lost.allocator.alloc(1 << 22), calls.run_timed,
    )  # fmt: skip
    for use in uses:
        with pytest.raises(DeviceError, match=f"^{name}: "):
            use()
