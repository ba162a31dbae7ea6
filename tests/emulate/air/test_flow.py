"""Control flow of AIR's text: ways that lanes part on, and values that they bring along."""

import numpy as np
import pytest

from treadle.emulate.air.flow import flow_of
from treadle.emulate.air.kernels import Module
from treadle.emulate.air.syntax import AIRError

from .conftest import launch

LANES = np.arange(32)
TAIL = """
!air.kernel = !{!0}
!0 = !{ptr @k, !1, !2}
!1 = !{}
!2 = !{!3, !4}
!3 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write",
  !"air.address_space", i32 1, !"air.arg_name", !"out"}
!4 = !{i32 1, !"air.thread_index_in_simdgroup", !"air.arg_name", !"lane"}
"""


def text(body, more=""):
    """A kernel that stores %found, an i32, at its lane."""
    return f"""{more}
define void @k(ptr addrspace(1) %out, i32 %lane) {{
{body}
  %wide = zext i32 %lane to i64
  %place = getelementptr i32, ptr addrspace(1) %out, i64 %wide
  store i32 %found, ptr addrspace(1) %place, align 4
  ret void
}}
{TAIL}"""


BODIES = {
    "switch": ("""
  switch i32 %lane, label %others [
    i32 3, label %three
    i32 5, label %five
    i32 7, label %three
  ]
three:
  br label %end
five:
  br label %end
others:
  %double = mul i32 %lane, 2
  br label %end
end:
  %found = phi i32 [ 100, %three ], [ 200, %five ], [ %double, %others ]""",
        lambda n: np.select([(n == 3) | (n == 7), n == 5], [100, 200], 2 * n)),
    "phis that change places": ("""
  br label %loop
loop:
  %a = phi i32 [ 1, %0 ], [ %b, %loop ]
  %b = phi i32 [ 2, %0 ], [ %a, %loop ]
  %i = phi i32 [ 0, %0 ], [ %next, %loop ]
  %next = add i32 %i, 1
  %more = icmp ule i32 %next, %lane
  br i1 %more, label %loop, label %end
end:
  %found = add i32 %a, 0""",
        lambda n: 1 + n % 2),
    "a value from before the last step": ("""
  br label %loop
loop:
  %i = phi i32 [ 5, %0 ], [ %next, %loop ]
  %next = add i32 %i, %lane
  %more = icmp ult i32 %next, 40
  %again = icmp ne i32 %lane, 0
  %both = and i1 %more, %again
  br i1 %both, label %loop, label %end
end:
  %found = phi i32 [ %i, %loop ]""",
        lambda n: np.array([max(range(5, 40, k)) if k else 5 for k in n])),
    "loops in loops, left by lanes at a time of their own": ("""
  br label %outer
outer:
  %i = phi i32 [ 0, %0 ], [ %i2, %step ]
  %sum = phi i32 [ 0, %0 ], [ %sum2, %step ]
  br label %inner
inner:
  %j = phi i32 [ 0, %outer ], [ %j2, %inner ]
  %s = phi i32 [ %sum, %outer ], [ %sum2, %inner ]
  %sum2 = add i32 %s, 1
  %j2 = add i32 %j, 1
  %inside = icmp ult i32 %j2, %lane
  br i1 %inside, label %inner, label %step
step:
  %i2 = add i32 %i, 1
  %more = icmp ult i32 %i2, 3
  br i1 %more, label %outer, label %end
end:
  %found = add i32 %sum2, 0""",
        lambda n: 3 * np.maximum(n, 1)),
    "select and struct": ("""
  %odd = trunc i32 %lane to i1
  %pair = insertvalue { i32, [2 x i16] } undef, i32 %lane, 0
  %full = insertvalue { i32, [2 x i16] } %pair, i16 9, 1, 1
  %first = extractvalue { i32, [2 x i16] } %full, 0
  %last = extractvalue { i32, [2 x i16] } %full, 1, 1
  %long = sext i16 %last to i32
  %found = select i1 %odd, i32 %first, i32 %long""",
        lambda n: np.where(n % 2, n, 9)),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_each_lane_goes_its_own_way(air, name):
    body, expected = BODIES[name]
    out = np.zeros(32, np.int32)
    launch(air(text(body)), "k", 1, 32, {0: out})
    np.testing.assert_array_equal(out, expected(LANES))


def test_a_loop_comes_whole_before_what_follows_it():
    module = Module(
        text(BODIES["loops in loops, left by lanes at a time of their own"][0]).encode()
    )
    flow = flow_of(module.function("k"))
    forward = [target > block.index for block in flow.blocks for target in block.targets]
    assert forward.count(False) == 2  # the two ways back
    assert [len(block.targets) for block in flow.blocks] == [1, 1, 2, 2, 0]


def test_what_is_not_emulated_is_named(air):
    body = "  %found = call i32 @air.dance(i32 %lane)"
    with pytest.raises(AIRError, match=r"air\.dance is not emulated"):
        launch(air(text(body, "declare i32 @air.dance(i32)")), "k", 1, 32, {0: np.zeros(32, "i4")})


def test_division_by_zero_stops_nobody(air):
    out = np.zeros(32, np.int32)
    launch(air(text("  %found = sdiv i32 -2147483648, %lane")), "k", 1, 32, {0: out})
    np.testing.assert_array_equal(out[1:], np.fix(-(2**31) / LANES[1:]))


# What bits of llvm.is.fpclass name: NaN, then the finite and infinite ones from the least on.
CLASSES = {
    0x003: np.isnan,
    0x204: np.isinf,
    0x200: lambda x: x == np.inf,
    0x060: lambda x: x == 0,
    0x108: lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny),
    0x090: lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny),
}


@pytest.mark.parametrize(("kind", "dtype"), [("float", np.float32), ("half", np.float16)])
@pytest.mark.parametrize("classes", CLASSES)
def test_classes_of_floats(air, kind, dtype, classes):
    tiny = np.finfo(dtype).tiny
    values = np.resize(
        np.array([0.0, -0.0, 1, -2, np.nan, np.inf, -np.inf, tiny, tiny / 2, -tiny / 4], dtype), 32
    )
    bits = values.itemsize * 8
    letters = {"float": "f32", "half": "f16"}[kind]
    program = air(
        text(
            f"""
  %at = zext i32 %lane to i64
  %from = getelementptr i32, ptr addrspace(1) %out, i64 %at
  %word = load i32, ptr addrspace(1) %from, align 4
  %low = {"add i32 %word, 0" if bits == 32 else "trunc i32 %word to i16"}
  %x = bitcast i{bits} %low to {kind}
  %is = call i1 @llvm.is.fpclass.{letters}({kind} %x, i32 {classes})
  %found = zext i1 %is to i32""",
            f"declare i1 @llvm.is.fpclass.{letters}({kind}, i32)",
        )
    )
    out = values.view(f"u{values.itemsize}").astype(np.uint32)
    launch(program, "k", 1, 32, {0: out})
    with np.errstate(invalid="ignore"):
        assert (out == CLASSES[classes](values)).all()
