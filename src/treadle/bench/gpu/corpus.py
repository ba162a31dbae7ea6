"""Small kernels whose results on hardware are recorded, and then asked of the emulator.

    for probe in corpus("sm_90a"):
        outputs = execute(context, probe)

What a PTX instruction may do in its own way (approximations, conversions out of range, sums of
matrix units, NaNs) is what is worth recording. `ulps` says by how much the last digits may differ
(0 where PTX's specification says which number it is), and `absolute` by how much the values may.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ...runtime.cuda.driver import Context

__all__ = ["Recorded", "corpus", "execute"]

_COUNT = 1024  # values of each input, one a thread
_THREADS = 128
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-40, -1e-40, 1e38, -1e38, 3e38, 65504.0, 448.0)


@dataclass(frozen=True)
class Recorded:
    """A kernel over `inputs` arrays of 32-bit words; `kind` is how its results are compared."""

    name: str
    text: str
    inputs: int
    least: int  # the architecture from which on it runs, 80 for sm_80
    kind: str = "u4"
    ulps: int = 0
    absolute: float = 0.0

    @property
    def digest(self) -> str:
        """Of the text: a record of another text says nothing."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def arrays(self) -> list[np.ndarray]:
        """The inputs: floats of every size, special ones first; the same each time."""
        import numpy as np

        generator = np.random.default_rng(int(self.digest[:8], 16))
        found = []
        for _ in range(self.inputs):
            small = generator.standard_normal(_COUNT // 2, np.float32) * 8
            wild = generator.integers(0, 2**32, _COUNT // 2, np.uint32).view(np.float32)
            values = np.concatenate([small, wild])
            values[: 3 * len(_SPECIAL) : 3] = _SPECIAL
            values[1:9:3] = np.inf, -np.inf, np.nan
            found.append(values)
        return found


def corpus(arch: str) -> list[Recorded]:
    """The kernels that run on an architecture such as sm_90a."""
    number = int(arch.removeprefix("sm_").rstrip("af"))
    return [probe for probe in _ALL if probe.least <= number]


def execute(context: Context, probe: Recorded) -> np.ndarray:
    """What a kernel writes on a driver's device, as words of 32 bits."""
    import numpy as np

    arrays = probe.arrays()
    result = np.zeros(_COUNT, np.uint32)
    stream, places = context.new_stream(), []
    kernel = context.load(probe.text.encode()).function("k")
    for array in (result, *arrays):
        places.append(context.alloc(array.nbytes, stream))
        context.copy_in(places[-1], array.ctypes.data, array.nbytes, stream)
    sizes = (_COUNT // _THREADS, 1, 1), (_THREADS, 1, 1)
    context.launch(kernel, *sizes, 0, stream, [("address", place) for place in places])
    context.wait_stream(stream)
    context.copy_out(result.ctypes.data, places[0], result.nbytes, stream)
    context.wait_stream(stream)
    for place in places:
        context.free(place, stream)
    context.delete_stream(stream)
    return result


def _kernel(code: str, inputs: int, version: str, target: str) -> str:
    """%a, %b and %c are the thread's words of the inputs, %d is its result."""
    names = "abc"[:inputs]
    parameters = ", ".join(f".param .u64 p{i}" for i in range(inputs + 1))
    loads = "".join(
        f"ld.param.u64 %x, [p{i + 1}]; mad.wide.u32 %x, %i, 4, %x; ld.global.b32 %{name}, [%x];\n"
        for i, name in enumerate(names)
    )
    return (
        f".version {version}\n.target {target}\n.address_size 64\n"
        f".visible .entry k({parameters}) {{\n"
        ".reg .b64 %x, %u; .reg .b32 %i, %t, %a, %b, %c, %d, %e<4>; .reg .b16 %h, %g; "
        ".reg .pred %p;\n"
        "mov.u32 %i, %ctaid.x; mov.u32 %t, %ntid.x; mad.lo.u32 %i, %i, %t, 0; mov.u32 %t, %tid.x; "
        "add.u32 %i, %i, %t;\n"
        f"{loads}{code}\n"
        "ld.param.u64 %x, [p0]; mad.wide.u32 %x, %i, 4, %x; st.global.b32 [%x], %d; ret;\n}\n"
    )


def _simple(name: str, code: str, inputs: int = 1, **how: Any) -> Recorded:
    return Recorded(name, _kernel(code, inputs, "7.0", "sm_75"), inputs, 75, **how)


def _approximate(name: str, ulps: int, absolute: float = 0.0) -> Recorded:
    return _simple(name, f"{name}.f32 %d, %a;", kind="f4", ulps=ulps, absolute=absolute)


def _matrix(kind: str, depth: int, absolute: float) -> Recorded:
    """A product of fragments whose numbers are of one size, since the inputs' are of every."""
    near = "".join(
        f"and.b32 %{r}, %{r}, 0x83FF83FF; or.b32 %{r}, %{r}, 0x3C003C00;\n" for r in "ab"
    )
    multiply = f"mma.sync.aligned.m16n8k{depth}.row.col.f32.{kind}.{kind}.f32"
    places = "{%d, %e0, %e1, %e2}, {%a, %b, %a, %b}, {%b, %a}, {%e0, %e0, %e0, %e0};"
    text = _kernel(f"{near}mov.b32 %e0, 0;\n{multiply} {places}", 2, "7.0", "sm_80")
    return Recorded(f"mma.{kind}", text, 2, 80, kind="f4", absolute=absolute)


_ALL = [
    _approximate("ex2.approx", 4), _approximate("lg2.approx", 4, 2**-21),
    _approximate("rcp.approx", 2), _approximate("sqrt.approx", 4), _approximate("rsqrt.approx", 4),
    _approximate("tanh.approx", 8192), _approximate("ex2.approx.ftz", 4),
    _simple("div.full", "div.full.f32 %d, %a, %b;", 2, kind="f4", ulps=4),
    _simple("fma.rn", "fma.rn.f32 %d, %a, %b, %c;", 3, kind="f4"),
    _simple("fma.rz.ftz.sat", "fma.rz.ftz.sat.f32 %d, %a, %b, %c;", 3, kind="f4"),
    _simple("div.rn", "div.rn.f32 %d, %a, %b;", 2, kind="f4"),
    _simple("sqrt.rn", "sqrt.rn.f32 %d, %a;", kind="f4"),
    _simple("min", "min.f32 %d, %a, %b;", 2, kind="f4"),
    _simple("cvt.rni.s32", "cvt.rni.s32.f32 %d, %a;"),
    _simple("cvt.rzi.u32", "cvt.rzi.u32.f32 %d, %a;"),
    _simple("cvt.rzi.s64", "cvt.rzi.s64.f32 %u, %a; cvt.u32.u64 %d, %u;"),
    _simple("cvt.rn.f16", "cvt.rn.f16.f32 %h, %a; cvt.u32.u16 %d, %h;"),
    _simple("cvt.rn.f32.f64", "cvt.f64.f32 %u, %a; mul.rn.f64 %u, %u, %u; cvt.rn.f32.f64 %d, %u;",
            kind="f4"),
    _simple("shf.wrap", "shf.l.wrap.b32 %d, %a, %b, %b;", 2),
    _simple("prmt", "prmt.b32 %d, %a, %b, %b;", 2), _simple("bfind", "bfind.s32 %d, %a;"),
    # Sums of sixteen products of about 1, or of 2**-14; hardware cuts off what is below 2**-23.
    _matrix("f16", 16, 2e-5), _matrix("bf16", 16, 2e-9), _matrix("tf32", 8, 2e-9),
]  # fmt: skip
