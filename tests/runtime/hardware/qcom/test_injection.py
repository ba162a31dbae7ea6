"""Commands that are forgotten on purpose: each is a fault or a timeout, at every seed.

A program runs on an emulated GPU that drops commands of one kind. A seed decides how the engines
interleave; with `--full` there are 200 of them. Whatever they happen to do in time, accesses that
nothing orders are a fault which names both.
"""

import re

import pytest
from tests.runtime.hardware.qcom.dropped_commands import CHIPS, KINDS, outcome, unmapped
from tests.thinning import chosen

from treadle.emulate.kgsl.injection import KINDS as ALL_KINDS

SEEDS = [seed for seed in range(200) if chosen(f"a seed of an emulated Adreno: {seed}", 24)]

_WHO = r"(the host|context 1, which runs the code at 0x\w+)"
_BOTH = re.compile(
    rf"{_WHO}, (reads|writes) 0x\w+; {_WHO}, (read|wrote) it, and nothing says that this has ended"
)


def found_at(kind, arch, **which):
    """The outcomes at all seeds, each of which has dropped something."""
    found = [outcome(arch, seed, kind, **which) for seed in SEEDS]
    assert SEEDS
    assert all(dropped for _, dropped in found)
    return [what for what, _ in found]


@pytest.mark.parametrize("arch", CHIPS)
def test_nothing_is_noticed_where_nothing_is_dropped(arch):
    assert {outcome(arch, seed)[0] for seed in SEEDS} == {"right"}


@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize("kind", ["idle", "flush"])
def test_a_missing_order_is_a_fault_at_every_seed_which_names_both_accesses(kind, arch):
    for what in found_at(kind, arch):
        assert _BOTH.search(what), what


def test_a_wait_for_idle_that_is_missing_between_two_kernels_is_a_fault():
    for what in found_at("idle", "a630", every=1 << 40):
        assert _BOTH.search(what), what


@pytest.mark.parametrize("arch", CHIPS)
def test_caches_that_are_not_invalidated_are_a_fault_at_every_seed(arch):
    for what in found_at("invalidate", arch):
        assert "the host, wrote it, and no cache was invalidated since" in what


@pytest.mark.parametrize("arch", CHIPS)
def test_a_missing_event_is_a_timeout_at_every_seed(arch):
    for what in found_at("event", arch):
        assert "has not finished what it was given: nothing has happened for 5 seconds" in what


@pytest.mark.parametrize("arch", CHIPS)
def test_a_missing_mapping_is_a_page_fault_at_every_seed(arch):
    for seed in SEEDS:
        what, address = unmapped(arch, seed)
        assert "an access of memory that is not its own" in what
        assert f"{address:#x}" in what


def test_all_kinds_are_dropped_here_but_waits_for_memory_which_one_queue_never_does():
    assert {*ALL_KINDS} - {*KINDS} == {"wait"}
