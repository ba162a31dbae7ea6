"""Every operator in OpInfo under jvp, vmap, their compositions and Jacobians, by the interpreter.

Each transform is compared with what it is made of (`opinfo/transforms.py` says how): tangents with
gradients, which `test_opinfo` compares with PyTorch's, batches with one example at a time, forward
with reverse mode. Nothing is compiled. Short runs take a sample of each operator's first variant,
`--full` four of every one.
"""

from __future__ import annotations

import os
import warnings

import pytest

pytest.importorskip("torch", reason="PyTorch's OpInfo database: pip install treadle[oracle]")
pytest.importorskip("expecttest", reason="PyTorch's tests need it: pip install treadle[oracle]")

from itertools import islice

from .opinfo.table import ROWS
from .opinfo.transforms import CHECKS, cases, jacobians, tangents

# Of several writes to one place PyTorch gives each the gradient; the last one moves the result.
LAST_WRITES = {f"nn.functional.max_unpool{n}d" for n in (1, 2, 3)}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_two_ways_through_the_transforms_of_an_operator_agree(name):
    whole = "FULL_TESTS" in os.environ
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = cases(name, "REF", most=4)
        for case in found if whole else islice(found, 1):
            for check in CHECKS:
                if name not in LAST_WRITES or check not in (tangents, jacobians):
                    check(case)
