"""Generated programs at the sizes where fast paths run: right on every device, and reaching all."""

from __future__ import annotations

import os
import random
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from treadle.ir.choices import CHOICES, Observed, choices_of, choosing, note_kernel, observing, take

from ..thinning import turn_of_commit
from .meetings import MEETINGS
from .recipes import RECIPES
from .report import (
    REASONS,
    contradicted,
    contradicted_pairs,
    matrix,
    merged,
    unexplained,
    unexplained_pairs,
    unmet_pairs,
)
from .running import run_all, run_every_two, run_meetings, run_narrow, run_surrounded
from .scenarios import opens

ROOT = Path(__file__).parents[2]
FULL = bool(os.environ.get("FULL_TESTS"))
SEEDS = range(60) if FULL else range(1)
PROCESSORS = ["CPU", "CPU:LLVM:x86-64-v3", "CPU:LLVM:x86-64-v2", "CL"]
GPUS = ["CL:0:OPENCL:gpu", "WEBGPU", "CUDA", "CUDA:PTX:sm_90a"]
CHAINS = {"CPU": 2000 if FULL else 40, "CL": 100 if FULL else 3, "WEBGPU": 100 if FULL else 3,
          "CUDA": 60 if FULL else 1, "CPU:LLVM:x86-64-v3": 500 if FULL else 6,
          "CPU:LLVM:x86-64-v2": 500 if FULL else 6}  # fmt: skip
# In each of eight parts.
TREES = {"CPU": 250 if FULL else 3, "CL": 10 if FULL else 1, "WEBGPU": 10 if FULL else 1}
# Vectors of 32 bytes make panels that only small caches do not hold at once (prefetch_panels).
CAPTURED = {name for name, make in RECIPES.items() if make(random.Random(0), 0.1).captured}
SMALL_CACHES = ["captured_cell_of_large_panels"]
# What each device runs beside the CPU, which runs everything; with --full all of them do.
FEW = {
    "CPU:LLVM:x86-64-v2": ["sum_of_products", "gated", "causal_attention", "sums_down_columns"],
    "CPU:LLVM:x86-64-v3": ["sum_of_products", "strided_convolution"],
    "CPU:LLVM:x86-64-v4": ["sum_of_products", "causal_attention"],
    "CPU:CLANG": ["sum_of_products"],
    "CL": ["sum_of_products"],
    "CL:0:OPENCL:gpu": ["linear"],
    "WEBGPU": ["softmax_of_rows", "many_tensors"],
    "CUDA": [
        "linear", "half_product", "product_of_repeated_rows", "softmax_of_rows",
        "statistics_of_a_product",
    ],
    "CUDA:PTX:sm_90a": ["half_product"],
}  # fmt: skip


def test_programs_are_right_and_reach_every_choice_on_the_processor() -> None:
    runs = [run_all("CPU", SEEDS), run_all("CPU", (), SMALL_CACHES, small=True)]
    failed = [line for _, lines in runs for line in lines]
    assert not failed, "\n".join(failed)
    seen = merged(found for found, _ in runs)
    print(matrix(seen, "CPU"))
    assert unexplained(seen.reached(), "CPU") == []
    assert contradicted(seen.reached(), "CPU") == []


@pytest.mark.skipif(not FULL, reason="thousands of programs: --full")
@pytest.mark.parametrize("device", [*PROCESSORS, *GPUS])
def test_programs_make_every_pair_of_choices_meet_that_has_no_reason(device: str) -> None:
    if (why := opens(device)) is not None:
        pytest.skip(f"{device}: {why}")
    several = {"chain", "beside", "products_beside", "scattered_onto_terms"}
    runs = [run_every_two(device), run_meetings(device)]
    if device in GPUS:
        runs += [run_all(device, range(2)), run_all(device, range(20), ["chain"])]
    else:
        runs += [run_all(device, range(CHAINS["CPU"]), several, small=True)]
        runs += [run_all(device, SEEDS, small=small) for small in (False, True)]
    failed = [line for _, lines in runs for line in lines]
    assert not failed, "\n".join(failed)
    seen = merged(found for found, _ in runs)
    print(matrix(seen, device))
    assert unexplained_pairs(seen, device) == []
    assert contradicted_pairs(seen, device) == []


def test_a_part_of_every_two_terms_is_right() -> None:
    _, failed = run_every_two("CPU", slice(None) if FULL else slice(0, 160, 20))
    assert not failed, "\n".join(failed)


def test_a_part_of_the_programs_for_other_pairs_is_right() -> None:
    _, failed = run_meetings("CPU", slice(None) if FULL else slice(0, None, 12))
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("name", ["beside", "products_beside", "scattered_onto_terms"])
def test_terms_are_right_with_small_caches(name: str) -> None:
    _, failed = run_all("CPU", range(500 if FULL else 3), [name], small=True)
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_nothing_is_read_around_a_part_of_memory(name: str) -> None:
    for seed in range(20 if FULL else 2):
        run_surrounded(name, seed, "CPU")


def test_kernels_are_of_the_caches_around_them_whatever_ran_before() -> None:
    device = "CPU:LLVM:x86-64-v3"
    if (why := opens(device)) is not None:
        pytest.skip(f"{device}: {why}")
    usual, small, again = (run_all(device, (), SMALL_CACHES, s)[0] for s in (False, True, False))
    assert "prefetch_panels" in small.reached()
    assert "prefetch_panels" not in usual.reached() | again.reached()


@pytest.mark.parametrize("device", FEW)
def test_programs_are_right_elsewhere(device: str) -> None:
    if (why := opens(device)) is not None:
        pytest.skip(f"{device}: {why}")
    seen, failed = run_all(device, SEEDS, [] if FULL else FEW[device])
    assert not failed, "\n".join(failed)
    assert seen.reached()
    if FULL:
        print(matrix(seen, device))
        assert unexplained(seen.reached(), device) == []
        assert contradicted(seen.reached(), device) == []


@pytest.mark.parametrize("device", CHAINS)
def test_parts_in_a_row_are_right(device: str) -> None:
    if (why := opens(device)) is not None:
        pytest.skip(f"{device}: {why}")
    _, failed = run_all(device, range(CHAINS[device]), ["chain"])
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("device", TREES)
def test_trees_are_right(device: str, part: int) -> None:
    if (why := opens(device)) is not None:
        pytest.skip(f"{device}: {why}")
    count = TREES[device]
    first = 0 if FULL else 8 * count * turn_of_commit()  # others at each commit
    seeds = range(first + part * count, first + (part + 1) * count)
    _, failed = run_all(device, seeds, ["tree", "moved"])
    assert not failed, "\n".join(failed)


NARROW = {"bfloat16": "CPU", "float16": "CPU:LLVM:x86-64-v3", "float64": "CPU"}


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("part", range(4))
def test_kernels_of_other_floats_are_right(part: int, dtype: str) -> None:
    if (why := opens(NARROW[dtype])) is not None:
        pytest.skip(f"{NARROW[dtype]}: {why}")
    others = [name for name in sorted(RECIPES) if name not in CAPTURED]
    turn = 0 if FULL else turn_of_commit()  # others at each commit
    names = others if FULL else [others[(12 * turn + 3 * part + n) % len(others)] for n in range(3)]
    for name in (*names, "tree", "moved"):
        for seed in range(part, 80, 4) if FULL else [turn * 4 + part]:
            assert run_narrow(name, seed, NARROW[dtype], dtype).kernels


def test_programs_that_failed_are_right() -> None:
    # 859: reductions of one phase shared a loop with those of another
    _, failed = run_all("CPU", (859,), ["tree"])
    assert not failed, "\n".join(failed)
    # 387: a tile of two masked products had a running total for each of its columns
    assert run_narrow("products_beside", 387, "CPU", "float64").kernels


def test_every_written_reason_is_about_a_choice_that_there_is() -> None:
    named = {name for row in REASONS["choice"] for name in row["names"]}
    assert named <= CHOICES.keys()
    rows = [*REASONS["choice"], *REASONS["apart"]]
    assert all(row["reason"].endswith(".") for row in rows)
    stages = {f"stage:{choice.stage}" for choice in CHOICES.values()}
    apart = {name for row in REASONS["apart"] for name in (*row["one"], *row["other"])}
    assert apart <= CHOICES.keys() | stages
    forms = {row["name"]: row for row in REASONS["form"]}
    assert len(forms) == len(REASONS["form"])
    assert {name for row in forms.values() for name in row["choices"]} <= CHOICES.keys()
    assert {name for row in REASONS["kernel"] for name in row["forms"]} <= forms.keys()
    unmet = {name for row in REASONS["unmet"] for name in (row["one"], *row["other"])}
    assert unmet <= CHOICES.keys()
    assert all(row["why"].endswith(".") for row in REASONS["unmet"])


def test_reasons_name_files_and_functions_that_there_are() -> None:
    text = (ROOT / "tests/choices/unreached.toml").read_text(encoding="utf-8")
    files = [*(ROOT / "src/treadle").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    paths = {file.relative_to(ROOT).with_suffix("").as_posix() for file in files}
    folders = {folder for path in paths for folder in path.split("/")}
    named = {f"{a}/{b}" for a, b in re.findall(r"\b(\w+)/(\w+)", text) if a in folders}
    assert named
    assert not {name for name in named if not any(f"/{name}" in f"/{path}/" for path in paths)}
    sources: dict[str, str] = defaultdict(str)
    for file in files:
        sources[file.stem] += file.read_text(encoding="utf-8")
    pairs = {(a, b) for a, b in re.findall(r"\b(\w+)\.(\w+)\b", text) if a in sources}
    pairs = {(module, name) for module, name in pairs if name not in ("py", "toml")}
    is_there = lambda module, name: re.search(
        rf"^\s*(?:(?:def|class) {name}\b|{name} =)", sources[module], re.MULTILINE
    )
    assert pairs
    assert not {pair for pair in pairs if not is_there(*pair)}


def test_every_program_for_a_pair_has_a_name_of_its_own() -> None:
    rows = tomllib.loads((Path(__file__).parent / "meetings.toml").read_text(encoding="utf-8"))
    assert [*MEETINGS] == [row["meets"] for row in rows["program"]]


def test_a_choice_without_programs_needs_a_reason() -> None:
    everything = set(CHOICES)
    assert unexplained(everything, "CPU") == []
    assert unexplained(everything - {"register_tile"}, "CPU") == ["register_tile"]
    assert unexplained(everything - {"matrix_units"}, "CPU") == []


def test_a_choice_that_is_reached_against_its_reason_is_reported() -> None:
    assert contradicted(["register_tile"], "CPU") == []
    assert contradicted(["register_tile", "matrix_units"], "CPU") == ["matrix_units"]
    seen = Observed()
    seen.kernels[frozenset({"matrix_units"})] += 1
    assert "1 choices were reached although" in matrix(seen, "CPU")


def test_pairs_that_met_are_seen() -> None:
    seen = Observed()
    seen.kernels[frozenset({"register_tile", "partial_sums"})] += 2
    seen.kernels[frozenset({"partial_sums"})] += 1
    assert seen.pairs() == {("partial_sums", "register_tile")}
    assert unexplained_pairs(seen, "CPU") == []
    seen.kernels[frozenset({"row_scan", "reduction_epilogue"})] += 1
    assert ("reduction_epilogue", "register_tile") in unexplained_pairs(seen, "CPU")
    assert ("register_tile", "row_scan") not in unexplained_pairs(seen, "CPU")  # other forms


def test_pairs_can_meet_in_one_nest_or_in_two_of_a_kernel() -> None:
    seen = Observed()
    for name in ("cached_rows", "register_tile", "row_pipelining", "scatter_strips", "row_scan"):
        seen.kernels[frozenset({name})] += 1
    unexplained = {*unexplained_pairs(seen, "CPU"), *unmet_pairs(seen, "CPU")}
    assert ("cached_rows", "register_tile") in unexplained  # a sum in chunks beside it
    assert ("register_tile", "scatter_strips") in unexplained  # what is added to
    assert ("register_tile", "row_pipelining") not in unexplained  # few results, and many
    assert ("row_scan", "scatter_strips") not in unexplained  # kernels of their own


def test_a_pair_that_met_and_is_said_to_be_apart_is_reported() -> None:
    seen = Observed()
    seen.kernels[frozenset({"register_tile", "partial_sums", "fast_replay"})] += 1
    assert contradicted_pairs(seen, "CPU") == []
    seen.kernels[frozenset({"register_tile", "row_scan"})] += 1
    assert contradicted_pairs(seen, "CPU") == [("register_tile", "row_scan")]
    assert "1 pairs met although" in matrix(seen, "CPU")


def test_choices_are_recorded_for_the_block_that_asks() -> None:
    with choices_of() as outer:
        take("register_tile")
        with choices_of() as inner:
            take("partial_sums")
    take("row_scan")
    assert (outer, inner) == ({"register_tile"}, {"partial_sums"})


def test_kernels_are_noted_with_what_was_chosen_around_them() -> None:
    note_kernel(["row_scan"])
    with observing() as seen, choosing("fast_replay"):
        note_kernel(["register_tile"])
    assert dict(seen.kernels) == {frozenset({"fast_replay", "register_tile"}): 1}


def test_a_name_that_is_in_no_table_is_refused() -> None:
    with choices_of(), pytest.raises(KeyError):
        take("no such choice")
