"""A device that is lost says so by its name from then on, and takes nothing else with it."""

from __future__ import annotations

import gc
from functools import partial

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
    ways = LOSING[driven.name]
    lost, other = ways.open(driven.name), driven.runtime
    library, x, a = kernel.load(lost), put(lost, X), lost.allocator.alloc(4 * COUNT)
    calls = lost.call_list([kernel.launch(library, x, a, 1)])
    calls.run()
    ways.lose(lost)
    launch = kernel.launch(library, x, a, 1)
    uses = (
        calls.run, calls.run_timed, lost.synchronize, partial(get, lost, x), partial(put, lost, X),
        partial(lost.run, [launch]), partial(kernel.load, lost),
        partial(lost.allocator.alloc, 1 << 22),
    )  # fmt: skip
    for use in uses:
        with pytest.raises(DeviceError, match=f"^{driven.name}: "):
            use()
    del calls, library, x, a, launch, uses, use, lost
    gc.collect()
    np.testing.assert_array_equal(get(other, put(other, X)), X)
    assert (Tensor([1.0], device=driven.name) + 1).item() == 2
    assert (Tensor([1.0], device="CPU") + 1).item() == 2
