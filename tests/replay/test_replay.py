"""Every program becomes kernels; recorded texts are the same each time; what differs is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle import Tensor

from .recording import differences, read_record, record, record_one
from .renderers import RENDERERS
from .workloads import workloads

PARTS = 20
# Of matrices of zeros, and of types that a target has not.
MAY_FAIL = ("_LinAlgError: ", "DTypeError: [realize] NULL has no float64")


def _empty(*shape: int, dtype: str = "float32", device: str) -> Tensor:
    return Tensor.empty(*shape, dtype=dtype, device=device).realize()


def _product(device: str) -> None:
    (_empty(70, 90, device=device) @ _empty(90, 130, device=device)).relu().realize()


def _half_product(device: str) -> None:
    x = _empty(256, 256, dtype="float16", device=device)
    (x @ x).realize()


def _sum(device: str) -> None:
    _empty(70, 90, device=device).sum(1).realize()


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_program_gives_the_same_text_each_time(renderer: str) -> None:
    (first, failed), (second, _) = (record_one(renderer, _product) for _ in range(2))
    assert not failed
    assert first
    assert first == second


def test_each_renderer_prints_a_language_or_target_of_its_own() -> None:
    texts = {name: tuple(record_one(name, _half_product)[0]) for name in RENDERERS}
    assert len(set(texts.values())) == len(texts)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("renderer", RENDERERS)
def test_every_program_becomes_kernels(renderer: str, part: int) -> None:
    programs = list(workloads())[part::PARTS]
    made = {name: record_one(renderer, program) for name, program in programs}
    failed = {name: why for name, (_, why) in made.items() if why and not why.startswith(MAY_FAIL)}
    assert failed == {}
    assert sum(bool(texts) for texts, _ in made.values()) > len(programs) / 2


def test_a_program_that_needs_values_says_so_and_keeps_what_it_had() -> None:
    def reads(device: str) -> None:
        _sum(device)
        raise ArithmeticError(device)

    texts, failed = record_one("llvm avx2", reads)
    assert (len(texts), failed) == (2, "ArithmeticError: NULL")  # the input is filled, too


def test_records_of_the_same_sources_are_equal(tmp_path: Path) -> None:
    paths = [tmp_path / "old.gz", tmp_path / "new.gz"]
    counts = [record(["llvm sse"], path, ["program: linear", "matmul 256"]) for path in paths]
    old, new = (read_record([path]) for path in paths)
    assert counts[0] == counts[1] > 2
    assert len(old.programs) == 2
    assert differences(old, new) == []
    kernels, lines = old.size(old.programs)
    assert kernels == counts[0]
    assert lines == sum(old.texts[sha].count("\n") for ks, _ in old.programs.values() for sha in ks)


def test_another_text_and_another_number_of_kernels_are_found(tmp_path: Path) -> None:
    path = tmp_path / "record.gz"
    record(["wgsl"], path, ["program: linear"])
    old, new = read_record([path]), read_record([path])
    (key,) = new.programs
    kernels, _ = new.programs[key]
    changed = new.texts[kernels[1]].replace("fn ", "fn  ", 1)
    new.texts["changed"] = changed
    new.programs[key] = ([kernels[0], "changed", *kernels[2:]], "")
    (found,) = differences(old, new)
    assert (found.renderer, found.program) == key
    assert found.what.startswith("kernel 2:")
    assert "+fn  " in found.what
    new.programs[key] = (kernels[:-1], "")
    (found,) = differences(old, new)
    assert found.what == f"{len(kernels)} kernels, now {len(kernels) - 1}"
