"""Commands that are forgotten on purpose: each is a fault or a timeout, at every seed.

A program runs on an emulated GPU that drops commands of one kind. A seed decides how the engines
interleave; with `--full` there are 200 of them. Whatever they happen to do in time, accesses that
nothing orders are a fault which names both.
"""

import re

import pytest
from tests.thinning import chosen

from treadle.emulate.kfd import Injection
from treadle.emulate.kfd.injection import KINDS

from .dropped_commands import GPUS, outcome, unmapped

SEEDS = [seed for seed in range(200) if chosen(f"a seed of an emulated GPU: {seed}", 12)]
NAMED = [pytest.param(*row, id=f"{row[0]}-{'AQL' if row[1] else 'PM4'}") for row in GPUS]


@pytest.mark.parametrize(("arch", "uses_aql"), NAMED)
def test_nothing_is_noticed_where_nothing_is_dropped(arch, uses_aql):
    assert {outcome(arch, uses_aql, seed)[0] for seed in SEEDS} == {"right"}


def found_at(kind, arch, uses_aql):
    """The outcomes at all seeds, each of which has dropped something."""
    found = [outcome(arch, uses_aql, seed, kind) for seed in SEEDS]
    assert all(dropped for _, dropped in found)
    return [what for what, _ in found]


_WHO = r"(the host|the (copy|compute|AQL) queue at 0x\w+ of GPU 0x\w+, which .*?)"
_BOTH = re.compile(
    rf"{_WHO}, (reads|writes) 0x\w+; {_WHO}, (read|wrote) it, and nothing says that this has ended"
)


@pytest.mark.parametrize(("arch", "uses_aql"), NAMED)
@pytest.mark.parametrize("kind", ["release", "wait", "barrier"])
def test_a_missing_order_is_a_fault_at_every_seed_which_names_both_accesses(kind, arch, uses_aql):
    for what in found_at(kind, arch, uses_aql):
        assert _BOTH.search(what), what


@pytest.mark.parametrize(("arch", "uses_aql"), NAMED)
def test_a_missing_signal_is_a_timeout_at_every_seed(arch, uses_aql):
    for what in found_at("signal", arch, uses_aql):
        assert "has not finished what it was given: nothing has happened for 5 seconds" in what


@pytest.mark.parametrize(("arch", "uses_aql"), NAMED)
def test_a_missing_acquire_is_a_fault_at_every_seed(arch, uses_aql):
    told = "no cache was invalidated since" if uses_aql else "may read stale caches"
    for what in found_at("acquire", arch, uses_aql):
        assert told in what


@pytest.mark.parametrize(("arch", "uses_aql"), NAMED[:2])
def test_an_acquire_that_is_missing_between_two_kernels_is_a_fault(arch, uses_aql):
    every = 1 << 40  # none but one: the first comes with the submission, the next between kernels
    for seed in SEEDS:
        what, dropped = outcome(arch, uses_aql, seed, "acquire", every=every, skip=1)
        assert dropped == 1
        assert "no cache was invalidated since" in what


@pytest.mark.parametrize(("arch", "uses_aql"), NAMED)
def test_a_missing_mapping_is_a_page_fault_at_every_seed(arch, uses_aql):
    for seed in SEEDS:
        what, address = unmapped(arch, uses_aql, seed)
        assert f"unmapped address {address:#x}" in what


def test_a_kind_that_is_none_is_refused():
    with pytest.raises(ValueError, match="release"):
        Injection("everything")
    assert len(KINDS) == 6


def test_some_commands_of_a_kind_can_be_dropped():
    injection = Injection("wait", every=3, skip=1)
    assert [injection.drops("wait") for _ in range(8)] == [
        False, True, False, False, True, False, False, True,
    ]  # fmt: skip
    assert not injection.drops("signal")
    assert injection.dropped == 3
