"""Kernels of many programs for each Adreno: read whole by Mesa, no register used too soon."""

from __future__ import annotations

import os
from functools import cache

import pytest

from treadle import Context
from treadle.compile.ir3 import IR3Compiler
from treadle.emulate.ir3.decode import decode
from treadle.emulate.ir3.operands import Instruction
from treadle.emulate.ir3.waits import Block, too_early
from treadle.engine.realized import current
from treadle.ir3_object import unpack
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.render.ir3 import IR3Renderer
from treadle.schedule.passes import schedule
from treadle.target import ADRENO_CHIPS, adreno_chip, adreno_target

from ..compile.mesa import disassemble
from .corpus import CORPUS, floats

PROGRAMS = [n for n in CORPUS if not n.endswith("float64") and n != "doubles to integers"]
FEW = ("formulas", "softmax", "matmul", "convolution", "sums uint8", "arithmetic int64")
WHOLE = ADRENO_CHIPS if "FULL_TESTS" in os.environ else ("a630",)
CASES = [(chip, name) for chip in ADRENO_CHIPS for name in (PROGRAMS if chip in WHOLE else FEW)]


# Programs with intermediate results, which IMAGE=1 keeps in images.
IMAGES = {
    "products": lambda: ((floats(24, 40) @ floats(40, 32)).relu() @ floats(32, 12)).exp(),
    "convolutions": lambda: (
        floats(2, 4, 12, 12).conv2d(floats(8, 4, 3, 3), padding=1).relu().conv2d(floats(4, 8, 3, 3))
    ),
    "rows": lambda: (floats(24, 36) @ floats(36, 36)).softmax().pad(((1, 0), (2, 3))).sum(0),
    "parts": lambda: sum((floats(8, 20) @ floats(20, n + 8)).flatten()[3:40] for n in range(20)),
}


@cache
def compiled(chip, program):
    """The entries of all kernels of a program."""
    return entries_of(chip, CORPUS[program]())


def entries_of(chip, result):
    target, found = adreno_target(chip), []
    for kernel in schedule(current([result.node])[0], "CPU", target)[0]:
        ast, _ = optimize(kernel.ast, target)
        low = lower(ast, len(kernel.buffers), target)
        text = IR3Renderer(target).render("k", low.phases, low.variables)
        found += unpack(IR3Compiler(target).compile(text))
    return found


def hazards(words):
    """What uses a register too early, by the emulator's rules."""
    items = [Instruction(decode(word)) for word in words]
    targets = {n: n + item.number("IMMED") for n, item in enumerate(items) if item.name == "br"}
    starts = sorted({0, *targets.values(), *(n + 1 for n in targets)})
    blocks = {}
    for start, end in zip(starts, [*starts[1:], len(items)], strict=True):
        last = end - 1
        following = [] if items[last].name == "end" else [end]
        following += [targets[last]] if last in targets else []
        blocks[start] = Block([(n, items[n]) for n in range(start, end)], following)
    return too_early(blocks)


@pytest.mark.parametrize(("chip", "program"), CASES)
def test_code_is_read_whole_and_waits_for_what_it_reads(chip, program):
    entries = compiled(chip, program)
    assert entries
    check_entries(entries, chip)


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize(
    ("chip", "program"), [(c, p) for c in ADRENO_CHIPS for p in IMAGES if c in WHOLE or p == "rows"]
)
def test_code_for_images_is_read_whole_and_waits_for_what_it_reads(chip, program, half):
    with Context(IMAGE=1, FLOAT16=half):
        entries = entries_of(chip, IMAGES[program]())
    images = [image for entry in entries for image in entry.images]
    assert {image.is_texture for image in images} == {True, False}
    assert {image.bits for image in images} == {16 if half else 32}
    check_entries(entries, chip)


def check_entries(entries, chip):
    for entry in entries:
        lines = disassemble(list(entry.code))
        assert len(lines) == len(entry.code)
        assert not [line for line in lines if "???" in line or "no match" in line]
        assert lines[-1].endswith("end")
        assert hazards(entry.code) == {}
        chip_ = adreno_chip(chip)
        assert entry.shared <= chip_.shared_bytes
        assert entry.wave <= chip_.wave
        waves = -(-entry.work_items // 64)
        assert waves * entry.registers <= chip_.registers * chip_.granularity


def test_a_wait_that_is_left_out_is_found():
    """Each flag and each nop of a kernel, taken out, is missed by the same rules."""
    (entry,) = compiled("a630", "matmul")
    words, missed = list(entry.code), 0
    for place, word in enumerate(words):
        for flag in (44, 60):
            if word >> flag & 1 and word >> 61 not in (6, 7) and word >> 61:
                words[place] = word & ~(1 << flag)
                missed += bool(hazards(words))
                words[place] = word
    assert missed >= 3
