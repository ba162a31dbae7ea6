"""PyTorch's OpInfo database: every operator that treadle has, on its float32 samples.

Values, gradients of first and second order, and error inputs; `opinfo/known.toml` holds what
differs, each line with its reason. Some operators have a thousand samples: those that pass them
all are tested on about a hundred, and on all with `--full`. `python -m tests.oracle.opinfo` prints
the score of all.
"""

import os

import pytest

pytest.importorskip("torch", reason="PyTorch's OpInfo database: pip install treadle[oracle]")
pytest.importorskip("expecttest", reason="PyTorch's tests need it: pip install treadle[oracle]")

from .opinfo.known import known, patterns, problems
from .opinfo.table import ROWS


@pytest.mark.parametrize("name", sorted(ROWS))
def test_an_operator_agrees_with_pytorch_but_for_what_the_list_says(name):
    from .opinfo.check import check

    listed = any(name in known().get(kind, ()) for kind in ("values", "gradients", "second"))
    found = check(name, "CPU", most=None if listed or "FULL_TESTS" in os.environ else 100)
    if found is None:
        pytest.skip("treadle has no such method yet")
    assert not problems(name, found), "\n".join(problems(name, found))


def test_every_name_in_opinfo_has_a_row_or_a_reason():
    from .opinfo.check import names

    everything = names()
    assert not set(ROWS) - set(everything), "rows without an operator"
    silent = [name for name in everything if name not in ROWS and not patterns(name)]
    assert not silent, f"no row and no reason: {silent}"


def test_every_line_of_the_list_is_about_something():
    from .opinfo.check import names

    rest = [name for name in names() if name not in ROWS]
    used = {pattern for name in rest for pattern in patterns(name)[:1]}
    idle = set(known()["uncovered"]) - used
    assert not idle, f"reasons that decide about no name: {idle}"
    listed = {name for kind, table in known().items() if kind != "uncovered" for name in table}
    assert not listed - set(ROWS), f"names without a row: {listed - set(ROWS)}"
