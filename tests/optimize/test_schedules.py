"""Schedules are values: they print, parse, hash, are kept on disk and replay to the same kernel."""

from __future__ import annotations

import numpy as np
import pytest
from tests.replay.renderers import RENDERERS

from treadle import Tensor, dtypes
from treadle.engine import kernels, pipeline
from treadle.engine.cache import CompileCache
from treadle.engine.programs import Programs
from treadle.engine.run import scheduled
from treadle.errors import InternalError
from treadle.ir.choices import CHOICES, choices_of
from treadle.optimize.heuristic import optimize, parsed, replay
from treadle.optimize.loop_digits import Merge
from treadle.optimize.loop_moves import Extent, Loops, Part, Reorder
from treadle.optimize.moves import Move, Moves, Schedule
from treadle.optimize.records import Loop, Reduction
from treadle.optimize.reduction_moves import SplitReduction
from treadle.optimize.shared_tiles import TileForWorkgroups
from treadle.target import parse_target

AVX2 = parse_target("x86-64-v3")


def filled(*shape, dtype=dtypes.float32):
    return Tensor.ones(*shape, dtype=dtype, device="CPU").contiguous().realize()


def attention(dtype, *shape, **options):
    return filled(*shape, dtype=dtype).scaled_dot_product_attention(
        filled(*shape, dtype=dtype), filled(*shape, dtype=dtype), **options
    )


def gradient_of_attention():
    q = filled(2, 128, 64, dtype=dtypes.bfloat16)
    out = q.scaled_dot_product_attention(q * 2, q * 3, is_causal=True)
    return out.gradient(q, gradient=filled(2, 128, 64, dtype=dtypes.bfloat16))[0]


def picked(rows, columns):
    places = Tensor(np.zeros((rows, columns), np.int32), device="CPU").realize()
    return filled(rows, 500).gather(1, places)


PROGRAMS = {
    "neighbouring loops": lambda: filled(8, 9) + filled(8, 9),
    "transpose": lambda: filled(300, 400).T.contiguous(),
    "channels": lambda: Tensor.stack(*(filled(4, 64) for _ in range(3)), dim=-1) * 2,
    "digits": lambda: filled(6, 64).reshape(6, 8, 8).permute(1, 0, 2).contiguous() + 1,
    "pieces": lambda: Tensor.cat(filled(64, 96), filled(64, 96), dim=0),
    "product": lambda: filled(600, 300) @ filled(300, 256),
    "long product": lambda: filled(64, 9000) @ filled(9000, 64),
    "product of halves": lambda: filled(256, 256, dtype=dtypes.float16) @ filled(
        256, 256, dtype=dtypes.float16),
    "large product of halves": lambda: filled(1024, 256, dtype=dtypes.bfloat16) @ filled(
        256, 1024, dtype=dtypes.bfloat16),
    "convolution of small images": lambda: filled(8, 64, 7, 7).conv2d(
        filled(32, 64, 5, 5), padding=2
    ),
    "convolution": lambda: filled(2, 16, 30, 30).conv2d(filled(32, 16, 3, 3), padding=1),
    "softmax": lambda: filled(64, 128).softmax(),
    "long softmax": lambda: filled(300, 5000).log_softmax(),
    "layer norm": lambda: filled(100, 768).layernorm(),
    "variance": lambda: filled(100, 1031).var(1),
    "sum": lambda: filled(1_000_000).sum(),
    "sums of columns": lambda: filled(5000, 640).sum(0),
    "argmax": lambda: filled(100, 40_000).argmax(1),
    "scan of rows": lambda: filled(100, 256).cumsum(1),
    "scan of columns": lambda: filled(2048, 2048).cumsum(0),
    "gather": lambda: picked(40, 133),
    "attention": lambda: attention(dtypes.float32, 2, 256, 64, is_causal=True),
    "attention of halves": lambda: attention(dtypes.float16, 2, 256, 64, is_causal=True),
    "gradient of attention": gradient_of_attention,
}  # fmt: skip
TARGETS = ("llvm avx2", "opencl gpu", "ptx sm_80", "ptx sm_90a")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("renderer", TARGETS)
def test_the_text_of_a_schedule_replays_to_the_same_kernel(renderer, name):
    target, _ = RENDERERS[renderer]()
    for kernel in scheduled([(PROGRAMS[name]().node, "CPU")]):
        with choices_of() as chosen:
            ast, schedule = optimize(kernel.ast, target)
        again = parsed(str(schedule))
        assert again == schedule
        assert hash(again) == hash(schedule)
        with choices_of() as replayed:
            assert replay(kernel.ast, target, again) is ast
        assert replayed == chosen
        assert schedule.choices() <= chosen


def test_a_kernel_that_was_kept_on_disk_has_its_schedule(monkeypatch, tmp_path):
    cache = CompileCache(tmp_path)
    for module in (kernels, pipeline):
        monkeypatch.setattr(module, "compile_cache", lambda: cache)
    made = []
    for _ in range(2):
        monkeypatch.setattr(pipeline, "_programs", Programs())
        monkeypatch.setattr(kernels, "_kernels", {})
        (filled(31, 57).softmax(1) * 3).realize()
        made.append({key: kernel.schedule for key, kernel in kernels._kernels.items()})
        monkeypatch.setattr(kernels, "optimize", lambda *a: pytest.fail("it chose anew"))
    first, second = made
    assert first == second
    assert all(first.values())


# -- words ----------------------------------------------------------------------------------------

PLAIN = {
    "compute_rows", "cut_off_ends", "divide_last", "loops", "order_steps", "reorder",
    "share_reduction", "stage_parts",
}  # fmt: skip


def kinds(base):
    return {kind for one in base.__subclasses__() for kind in (one, *kinds(one))}


def test_moves_that_are_choices_have_their_names():
    named = [kind for kind in kinds(Move) if kind is not TileForWorkgroups]  # others are its kinds
    words = {kind.word for kind in named}
    assert words - CHOICES.keys() == PLAIN
    assert {CHOICES[word].stage for word in words & CHOICES.keys()} == {"optimize"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no_such_move(r1)", "nothing is called no_such_move"),
        ("reduction((r1,))", "a schedule has a move on each line"),
        ("merged_loops(r0)", "no records"),
        ("merged_loops(r0, r1", "no records"),
        ("merged_loops(r0, __import__('os'))", "nothing is called __import__"),
        ("merged_loops(r0, r0.x)", "a record does not say"),
        ("x = 1", "a record is a call"),
    ],
)
def test_other_texts_are_no_schedules(text, message):
    with pytest.raises(ValueError, match=message):
        parsed(text)


def test_no_moves_are_a_schedule():
    assert parsed("") == Schedule()
    assert str(Schedule()) == ""


# -- what a move refuses --------------------------------------------------------------------------


def kernel_of(tensor):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    return kernel.ast


def extent(number, size, step=0):
    return Extent("loop", Loop(number), size, step)


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (Merge(Loop(0), Loop(7)), "no loop r7"),
        (SplitReduction(Reduction((Loop(5),)), Loop(5), 4), r"no reduction\(\(r5,\)\)"),
        (Reorder(3, (Loop(0), Loop(1))), "no nest 3"),
        (Reorder(0, (Loop(0),)), "does not name the loops"),
        (Loops((Part(Loop(0), (extent(5, 4),)),)), "leaves out steps"),
        (Loops((Part(Loop(0), (extent(5, 8), extent(6, 2, 2))),)), "leaves out steps"),
        (Loops((Part(Loop(0), (extent(1, 8),)),)), "has a loop r1 already"),
    ],
)
def test_a_move_that_does_not_fit_is_refused(move, message):
    with pytest.raises(ValueError, match=message):
        replay(kernel_of(filled(8, 9).T + 1), AVX2, Schedule((move,)))


def test_steps_may_be_apart_in_any_way_that_covers_a_loop_once():
    halves = Part(Loop(0), (extent(5, 3, 1), extent(6, 3, 3)))
    moves = Moves(kernel_of(filled(8, 9).T + 1), AVX2)
    ((outer, half),) = moves.make(Loops((halves,)))
    assert [loop.arg.number for loop in (outer, half)] == [5, 6]
    assert str(halves) == "split(r0, loop(r5, 3, step=1), loop(r6, 3, step=3))"


def test_only_a_move_changes_a_kernel_and_one_that_changes_nothing_is_none():
    moves = Moves(kernel_of(filled(8, 9).T + 1), AVX2)
    with pytest.raises(InternalError, match="only a move"):
        moves.root = moves.root.src[0]
    moves.make(Reorder(0, tuple(map(Loop.of, moves.nests()[0].loops))))
    assert moves.schedule() == Schedule()
