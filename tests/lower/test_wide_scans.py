"""Running totals in float64, where there is more than one step to total."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.ir.choices import observing


@pytest.mark.parametrize(("steps", "is_wide"), [(1, False), (5, True)])
def test_a_scan_of_one_step_has_no_total_to_keep_wide(steps: int, is_wide: bool) -> None:
    x = np.random.default_rng(0).standard_normal((3, steps, 4)).astype(np.float32)
    t = Tensor(x, device="CPU").realize()
    with observing() as seen:
        found = t.cumsum(1).numpy()
    np.testing.assert_allclose(found, x.cumsum(1), rtol=0, atol=1e-6)
    assert ("float64_scan" in seen.reached()) == is_wide
