"""The memory planner."""

from hypothesis import given
from hypothesis import strategies as st

from treadle.engine.arena import ALIGNMENT, Life, plan

lives = st.lists(
    st.builds(
        lambda first, length, nbytes: Life(first, first + length, nbytes),
        st.integers(0, 20), st.integers(0, 8), st.integers(1, 5000),
    ),
    max_size=25,
)  # fmt: skip


@given(lives)
def test_buffers_that_live_at_the_same_time_never_overlap(lives):
    offsets, total = plan(lives)
    for i, a in enumerate(lives):
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] + a.nbytes <= total
        for j, b in enumerate(lives[:i]):
            if a.first <= b.last and b.first <= a.last:
                apart = offsets[i] + a.nbytes <= offsets[j] or offsets[j] + b.nbytes <= offsets[i]
                assert apart


def test_a_chain_of_equal_buffers_needs_two():
    _, total = plan([Life(i, i + 1, 640) for i in range(50)])
    assert total == 2 * 640
