"""PyTorch's OpInfo database: every operator that treadle has, on its float32 samples.

Values, gradients of first and second order, and error inputs; `opinfo/known.toml` holds what
differs, each line with its reason. Some operators have a thousand samples: those that pass them
all are tested on about sixty, costly ones on fewer, and on all with `--full`.
`python -m tests.oracle.opinfo` prints the score of all.
"""

import os

import pytest

pytest.importorskip("torch", reason="PyTorch's OpInfo database: pip install treadle[oracle]")
pytest.importorskip("expecttest", reason="PyTorch's tests need it: pip install treadle[oracle]")

from .opinfo.known import known, patterns, problems
from .opinfo.table import ROWS

# so many samples of each variant, where each is a large kernel of its own
COSTLY = {
    "cdist": 20, "cov": 10, "dist": 10, "float_power": 3, "gcd": 3, "grid_sampler_2d": 4,
    "grid_sampler_3d": 2, "histogram": 20, "histogramdd": 20, "index_reduce": 10,
    "linalg.lu_solve": 30, "mvlgamma": 2, "nanquantile": 12, "nn.functional.ctc_loss": 15,
    "nn.functional.grid_sample": 6, "nn.functional.interpolate": 30,
    "nn.functional.max_pool3d": 15, "nn.functional.unfold": 30, "polygamma": 2,
    "special.polygamma": 2, "special.xlog1py": 3, "special.zeta": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(ROWS))
def test_an_operator_agrees_with_pytorch_but_for_what_the_list_says(name):
    from .opinfo.check import check

    listed = any(name in known().get(kind, ()) for kind in ("values", "gradients", "second"))
    some = COSTLY.get(name, None if listed else 60)
    most = None if "FULL_TESTS" in os.environ else some
    found = check(name, "CPU", most=most)
    if found is None:
        pytest.skip("treadle has no such method yet")
    wrong = problems(name, found, is_whole=most is None)
    assert not wrong, "\n".join(wrong)


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
