"""Found by generated programs (tests/choices): sorts of lines that share bins among few blocks."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor


@pytest.mark.parametrize("shape", [(3, 2499), (3, 2501), (1, 5000), (17, 700)])
def test_found_counters_of_a_sort_stay_in_memory(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(Tensor(x).sort(-1)[0].numpy(), np.sort(x, -1))
