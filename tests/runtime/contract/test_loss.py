"""A device that is lost says so by its name from then on, and takes nothing else with it."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

from treadle import Tensor
from treadle.backends import backend_of
from treadle.engine.devices import Opened
from treadle.errors import DeviceError

from .kernels import COUNT, Kernel, get, put
from .losing import LOSING

X = np.arange(COUNT, dtype=np.int32)


class Lost:
    """A device that is lost with a launch behind it, and what it had."""

    def __init__(self, name: str, kernel: Kernel) -> None:
        ways, self.kernel = LOSING[backend_of(name).name], kernel
        self.device = ways.open(name)
        self.library = kernel.load(self.device)
        self.x, self.out = put(self.device, X), self.device.allocator.alloc(4 * COUNT)
        self.launch = kernel.launch(self.library, self.x, self.out, 1)
        self.calls = self.device.call_list([self.launch])
        self.calls.run()
        ways.lose(self.device)


USES: dict[str, Callable[[Lost], object]] = {
    "replay": lambda lost: lost.calls.run(),
    "timed replay": lambda lost: lost.calls.run_timed(),
    "wait": lambda lost: lost.device.synchronize(),
    "read": lambda lost: get(lost.device, lost.x),
    "write": lambda lost: put(lost.device, X),
    "launch": lambda lost: lost.device.run([lost.launch]),
    "load": lambda lost: lost.kernel.load(lost.device),
    "allocate": lambda lost: lost.device.allocator.alloc(1 << 22),
}


@pytest.mark.parametrize("first", USES)  # by which the loss shows
def test_a_lost_device_is_named_and_others_go_on(
    driven: Opened, kernel: Kernel, first: str
) -> None:
    if backend_of(driven.name).name not in LOSING:
        pytest.skip(f"{driven.name}: losing.py has no seam through which it is lost")
    uses = [first, *(use for use in USES if use != first)]
    _use_all(Lost(driven.name, kernel), uses)
    gc.collect()
    other = driven.runtime
    np.testing.assert_array_equal(get(other, put(other, X)), X)
    assert (Tensor([1.0], device=driven.name) + 1).item() == 2
    assert (Tensor([1.0], device="CPU") + 1).item() == 2


def _use_all(lost: Lost, uses: list[str]) -> None:
    """Whatever is asked of a lost device is refused; it goes without a trace."""
    for use in uses:
        with pytest.raises(DeviceError, match=f"^{lost.device.name}: ") as caught:
            USES[use](lost)
        assert type(caught.value) is DeviceError, use  # nothing that frees memory or compiles anew
