"""Faults that are put in on purpose: each is noticed, or does no harm for a reason that is written.

A seed decides how the engines interleave, and what is launched; with `--full` there are 200 of
them. Noticed means: a fault, a timeout, or a result that is not right.
"""

import os
import re
from pathlib import Path
from random import Random

import pytest
from tests.thinning import chosen

from treadle.emulate.nv import tables
from treadle.emulate.nv.chips import chip
from treadle.emulate.nv.injection import KINDS, Injection

from .bad_handles import HARMLESS as HARMLESS_HANDLES
from .bad_handles import drawn, places, replaced
from .changed_bits import HARMLESS as HARMLESS_FIELDS
from .changed_bits import IGNORED, SOMETIMES, changed_bits, field_of_bits, plain
from .dropped_commands import ARCHS, ONCE, arch_of, dropped_one, number_of, outcome
from .dropped_commands import KINDS as DROPPED

ROOT = Path(__file__).parents[4]
IS_FULL = "FULL_TESTS" in os.environ
SEEDS = [seed for seed in range(200) if chosen(f"a seed of an emulated GPU: {seed}", 24)]
FEW = SEEDS if IS_FULL else SEEDS[:1]
ORDER = "in an order that nobody asked for"


def test_the_page_lists_what_is_harmless_with_its_reason():
    page = (ROOT / "docs/design/nv.md").read_text(encoding="utf-8")
    rows = [re.split(r" *\| *", line)[1:3] for line in page.splitlines() if line.startswith("| `")]
    told = {name: reason for cell, reason in rows for name in re.findall(r"`([^`]+)`", cell)}
    for name, reason in HARMLESS_FIELDS.items():
        assert told[name] == reason, name
    for (call, field), reason in HARMLESS_HANDLES.items():
        assert told[f"{call} {field}"] == reason, (call, field)


# -- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
def test_nothing_is_noticed_where_nothing_is_dropped(arch):
    assert {outcome(arch, None, seed) for seed in SEEDS} == {"right"}


@pytest.mark.parametrize("kind", DROPPED)
def test_a_dropped_command_is_noticed_or_leaves_the_result_right(kind):
    found = [outcome(arch_of(seed), Injection(kind), seed) for seed in SEEDS]
    assert all(what == "right" or "NV: " in what or ORDER in what for what in found)
    if kind == "release":
        assert all("nothing has happened for 2 seconds" in what for what in found)
    if kind == "mapping":
        assert all("used memory that is not its own, at 0x" in what for what in found)


@pytest.mark.parametrize("kind", ["acquire", "order", "idle"])
def test_a_missing_order_is_a_fault_at_every_seed(kind):
    found = [outcome(arch_of(seed), Injection(kind), seed) for seed in SEEDS]
    assert all("NV: " in what or ORDER in what for what in found)
    assert any(ORDER in what or "nothing says that this has ended" in what for what in found)


def test_each_missing_acquire_shows_at_some_seed():
    """The second copy waits for the kernels, and they for the first."""
    unseen = {0, 1}
    for seed in range(12):
        found = dropped_one("acquire", "sm_80", seed)
        assert len(found) == 2
        unseen -= {number for number, what in enumerate(found) if what != "right"}
        if not unseen:
            return
    pytest.fail(f"acquires {unseen} are missed at no seed")


def test_each_missing_release_is_noticed_but_those_of_bindings():
    """A channel's first work binds its class. A later release stands for it, and is waited for."""
    for seed in FEW:
        found = dropped_one("release", arch_of(seed), seed)
        right = {number for number, what in enumerate(found) if what == "right"}
        assert len(found) > 5
        assert len(right) == 2
        assert right < {0, 1, 2}  # the order of the two channels' is the seed's


def test_each_word_that_a_pushbuffer_lacks_is_noticed():
    """Some of each program's; `dropped_commands` drops all."""
    for seed in FEW:
        arch = arch_of(seed)
        count = number_of("word", arch, seed)
        assert count > 90
        for number in Random(seed).sample(range(count), 24):
            injection = Injection("word", every=ONCE, skip=number)
            assert outcome(arch, injection, seed, from_start=True) != "right", (seed, number)
            assert injection.dropped == 1


def test_each_missing_mapping_is_noticed_but_those_of_error_notifiers():
    """The driver writes error notifiers by itself, and by no address of the GPU's."""
    for seed in FEW:
        found = dropped_one("mapping", arch_of(seed), seed)
        right = [number for number, what in enumerate(found) if what == "right"]
        assert len(found) > 10
        assert right == [3, 6]  # each channel has ring, notifier and pushbuffer, in that order


def test_a_kind_that_is_none_is_refused():
    with pytest.raises(ValueError, match="acquire"):
        Injection("everything")
    assert {*DROPPED} < {*KINDS}


# -- handles --------------------------------------------------------------------------------------


def test_each_handle_that_is_not_the_right_one_is_noticed_or_harmless():
    for seed in SEEDS:
        for place, way, what in drawn(arch_of(seed), seed, 12 if IS_FULL else 3):
            name = place.about, place.field
            assert what != "right" or name in HARMLESS_HANDLES, (place, way, seed)


# One more is harmless by chance alone: memory that is mapped twice is left where it is freed first.
SURELY = [name for name in HARMLESS_HANDLES if name[0] != "UVM_MAP_EXTERNAL_ALLOCATION"]


@pytest.mark.parametrize("name", SURELY, ids=" ".join)
def test_a_handle_that_is_said_to_be_harmless_is(name):
    """Some of its values leave the program right."""
    for seed in range(8):
        for arch in ARCHS:
            for place in places(arch):
                if (place.about, place.field) == name:
                    for way in ("another", "random"):
                        if replaced(arch, place, way, seed) == "right":
                            return
    pytest.fail(f"{name} is noticed always")


# -- queue meta data ------------------------------------------------------------------------------


def some_bits(arch, seed):
    """The lowest and the highest bit of each field, and others; with `--full` all bits."""
    found = tables.qmd(chip(arch).qmd)
    if IS_FULL:
        return range(8 * found.nbytes)
    ends = {bit for low, high in found.fields.values() for bit in (low, high)}
    return sorted(ends | {*Random(seed).sample(range(8 * found.nbytes), 64)})


@pytest.mark.parametrize("arch", ARCHS)
def test_each_changed_bit_of_meta_data_is_noticed_or_harmless(arch):
    never, always = {*field_of_bits(chip(arch).qmd).values()}, {*IGNORED}
    for seed in FEW:
        found = changed_bits(arch, seed, some_bits(arch, seed))
        right = {name for _, name in found["right"]}
        assert right <= {*HARMLESS_FIELDS}, (seed, right - {*HARMLESS_FIELDS})
        assert len(found["stopped"]) > 10 * len(found["right"])
        never, always = never - right, always - {name for _, name in found["stopped"]}
    here = {plain(name) for name in tables.qmd(chip(arch).qmd).fields}
    assert not never & {*IGNORED}  # what is ignored is so at every value
    assert always == {*IGNORED} & here | {*IGNORED} - here
    if IS_FULL:
        assert not never & {*SOMETIMES} & here  # no reason stands for a field that needs none
