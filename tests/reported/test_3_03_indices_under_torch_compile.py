"""torch.compile: indices and labels out of range raise, since PyTorch reads what was computed."""

from __future__ import annotations

import pytest

from treadle.config import Context
from treadle.errors import IndexOutOfRange

torch = pytest.importorskip("torch", reason="torch.compile: pip install treadle[oracle]")
F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own compiler warns of itself

ROWS = torch.arange(12.0).view(4, 3)
# A function, and arguments with places that are there, and with one that is not.
CASES = {
    "embedding": (lambda i: F.embedding(i, ROWS) * 2, [0, 3, 1], [0, 4, 1]),
    "index": (lambda i: ROWS[i] * 2, [0, -4, 1], [0, -5, 1]),
    "embedding counts from the first row": (
        lambda i: F.embedding(i, ROWS) * 2,
        [0, 3, 1],
        [0, -1, 1],
    ),
    "index_select": (lambda i: ROWS.index_select(0, i) * 2, [0, 3, 1], [0, -1, 1]),
    "index_put": (
        lambda i: ROWS.index_put((torch.zeros_like(i), i), torch.ones(3)),
        [0, -3, 1],
        [0, 3, 1],
    ),
    "gather": (lambda i: ROWS.gather(0, i.view(1, 3)) * 2, [0, 3, 1], [0, 4, 1]),
    "labels": (lambda i: F.cross_entropy(ROWS[:3], i), [0, 2, -100], [0, 3, 1]),
}


@pytest.fixture
def compiled():
    from treadle.interop.dynamo import compile_graph

    torch._dynamo.reset()
    return lambda function: torch.compile(function, backend=compile_graph, dynamic=False)


@pytest.mark.parametrize("wrong_call", range(4))  # plain, captured, replayed twice
@pytest.mark.parametrize(("function", "good", "bad"), CASES.values(), ids=CASES)
def test_3_03_places_out_of_range_raise_in_that_call(compiled, function, good, bad, wrong_call):
    fast, good, bad = compiled(function), torch.tensor(good), torch.tensor(bad)
    for call in range(5):
        if call == wrong_call:
            with pytest.raises(IndexOutOfRange, match=r"lies outside of axis \d of size [34]"):
                fast(bad)
        else:
            torch.testing.assert_close(fast(good), function(good))


def test_3_03_check_index_of_zero_looks_at_nothing(compiled):
    fast = compiled(CASES["index"][0])
    with Context(CHECK_INDEX=0):
        for _ in range(3):
            assert fast(torch.tensor([0, 7, 1])).shape == (3, 3)
