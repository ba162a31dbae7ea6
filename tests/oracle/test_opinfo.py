"""PyTorch's OpInfo database: every operator that treadle has, on all float32 samples.

Values, gradients of first and second order, and error inputs; `opinfo/known.toml` holds what
differs, each line with its reason. `python -m tests.oracle.opinfo` prints the score.
"""

import pytest

pytest.importorskip("torch", reason="PyTorch's OpInfo database: pip install treadle[oracle]")
pytest.importorskip("expecttest", reason="PyTorch's tests need it: pip install treadle[oracle]")

from .opinfo.known import known, problems, reason
from .opinfo.table import ROWS


@pytest.mark.parametrize("name", sorted(ROWS))
def test_an_operator_agrees_with_pytorch_but_for_what_the_list_says(name):
    from .opinfo.check import check

    found = check(name, "CPU")
    if found is None:
        pytest.skip("treadle has no such method yet")
    assert not problems(name, found), "\n".join(problems(name, found))


def test_every_name_in_opinfo_has_a_row_or_a_reason():
    from .opinfo.check import names

    everything = names()
    assert not set(ROWS) - set(everything), "rows without an operator"
    silent = [name for name in everything if name not in ROWS and reason(name) is None]
    assert not silent, f"no row and no reason: {silent}"


def test_every_line_of_the_list_is_about_something():
    from .opinfo.check import names

    rest = [name for name in names() if name not in ROWS]
    lists = known()
    idle = [pattern for pattern in lists.pop("uncovered") if not any(_fits(pattern, n) for n in rest)]
    assert not idle, f"reasons without a name: {idle}"
    unknown = {name for table in lists.values() for name in table} - set(ROWS)
    assert not unknown, f"names without a row: {unknown}"


def _fits(pattern, name):
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern)
