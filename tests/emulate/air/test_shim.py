"""Texts of Metal's language: what is refused, in which words, and what kernels say they take."""

import numpy as np
import pytest

from treadle.emulate.air import AIRError, Argument, Module, MSLError, compile_msl, find_clang
from treadle.emulate.air.clang import Clang
from treadle.emulate.air.translate import translate
from treadle.errors import DeviceError

from .conftest import HEAD, launch

pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang 15 or newer")
REFUSED = {
    "an unknown name": ("device int *out [[buffer(0)]]", "out[0] = nowhere;", "nowhere"),
    "another memory": (
        "device int *out [[buffer(0)]], threadgroup int *t [[threadgroup(0)]]", "t = out;",
        "changes address space|incompatible",
    ),
    "a shuffle of 64 bits": (
        "device long *out [[buffer(0)]]", "out[0] = simd_shuffle_xor(out[1], 1);", "64 bits",
    ),
    "a vector of too few values": (
        "device float *out [[buffer(0)]]", "out[0] = float4(1.0f, 2.0f).x;", "not as many",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_metal_refuses_is_refused_at_its_line(name):
    parameters, body, words = REFUSED[name]
    text = f"{HEAD}kernel void k({parameters}) {{\n  // a line\n  {body}\n}}\n"
    with pytest.raises(MSLError, match=words) as caught:
        compile_msl(text)
    assert ":5:" in str(caught.value)


def test_a_parameter_without_an_attribute_is_refused():
    with pytest.raises(MSLError, match="int n has no attribute"):
        compile_msl(f"{HEAD}kernel void k(device int *out [[buffer(0)]], int n) {{ out[0] = n; }}")


def test_a_clang_that_cannot_be_run_is_said():
    with pytest.raises(DeviceError, match="clang-of-nobody cannot be run"):
        compile_msl(HEAD, "clang-of-nobody")


def test_what_is_no_module_is_an_error():
    for data in (b"BC no bitcode", b"define nothing", b"\xff\xfe"):
        with pytest.raises(AIRError, match="no module"):
            Module(data)
    with pytest.raises(AIRError, match="no kernel"):
        Module(b"define void @f() {\n  ret void\n}\n")


def test_a_kernel_says_what_it_takes():
    module = Module(
        compile_msl(f"""{HEAD}
    [[max_total_threads_per_threadgroup(64)]]
    kernel void first(device float *out [[buffer(2)]], /* a comment, with [[buffer(9)]] */
                      const device half *in [[buffer(0)]], constant int &n [[buffer(5)]],
                      threadgroup int *t [[threadgroup(1)]], uint3 p [[thread_position_in_grid]]) {{
      threadgroup float shared[10];
      shared[p.x % 10] = in[n] + t[0];
      threadgroup_barrier(mem_flags::mem_threadgroup);
      out[p.x] = shared[0];
    }}
    kernel void second(device float *out [[buffer(0)]]) {{ out[0] = 1; }}
    """)
    )
    first, second = module.kernels["first"], module.kernels["second"]
    assert first.arguments == (
        Argument("buffer", "out", 2, 1, writes=True), Argument("buffer", "in", 0, 1),
        Argument("buffer", "n", 5, 2), Argument("buffer", "t", 1, 3, writes=True),
        Argument("thread_position_in_grid", "p"),
    )  # fmt: skip
    assert (first.max_threads, first.static_threadgroup_bytes) == (64, 40)
    assert (second.max_threads, second.static_threadgroup_bytes) == (1024, 0)


@pytest.mark.parametrize(("how", "is_fused"), [("off", False), ("on", True)])
def test_sums_of_products_are_fused_where_the_text_allows_it(msl, how, is_fused):
    program = msl(f"""
    #pragma METAL fp contract({how})
    kernel void k(device float *out [[buffer(0)]], device const float *in [[buffer(1)]]) {{
      out[0] = in[0] * in[1] + in[2];
    }}""")
    a = np.float32(1 + 2**-12)
    numbers, out = np.array([a, a, -1], np.float32), np.zeros(1, np.float32)
    launch(program, "k", 1, 1, {0: out, 1: numbers})
    exact = float(a) * float(a) - 1
    assert out[0] == np.float32(exact if is_fused else np.float32(float(a) * float(a)) - 1)
    assert np.float32(exact) != np.float32(np.float32(float(a) * float(a)) - 1)


HIDDEN = {
    "by macros": """
    #define KEPT 3
    #define TAKES device float *out [[buffer(0)]], constant int &n [[buffer(KEPT)]]
    #if 0
    kernel void k(device int *other [[buffer(7)]]) {}
    #endif
    kernel void k(TAKES) { out[0] = n; }""",
    "by a line that goes on": """
    kernel void k(device float *out [[buff\\
er(0)]], constant int &n [[buffer(3)]]) { out[0] = n; }""",
    "by names of types": """
    typedef device float *Floats;
    using Number = constant int &;
    kernel void k(Floats out [[buffer(0)]], Number n [[buffer(3)]]) { out[0] = n; }""",
}


@pytest.mark.parametrize("how", HIDDEN)
def test_parameters_are_those_that_clang_sees(how):
    (kernel,) = Module(compile_msl(HEAD + HIDDEN[how])).kernels.values()
    assert kernel.arguments == (
        Argument("buffer", "out", 0, 1, writes=True), Argument("buffer", "n", 3, 2),
    )  # fmt: skip


@pytest.mark.parametrize(
    "head",
    ["[[kernel]] void k(", "[[kernel, max_total_threads_per_threadgroup(64)]] void k(",
     "[[ max_total_threads_per_threadgroup(64) ]] kernel void k("],
)  # fmt: skip
def test_a_kernel_is_one_in_each_spelling(head):
    module = Module(compile_msl(f"{HEAD}{head}device float *out [[buffer(1)]]) {{ out[0] = 1; }}"))
    assert module.kernels["k"].arguments == (Argument("buffer", "out", 1, 1, writes=True),)
    assert module.kernels["k"].max_threads == (64 if "max" in head else 1024)


def test_a_text_without_macros_is_not_preprocessed_apart(monkeypatch):
    monkeypatch.setattr(Clang, "preprocess", lambda *_: pytest.fail("clang ran again"))
    text = f"{HEAD}// #define no macro\n#pragma METAL fp contract(off)\n"
    assert compile_msl(text + "kernel void k(device int *a [[buffer(0)]]) { a[0] = 1; }")


def test_a_kernel_that_cannot_be_read_is_named():
    """Never a module that has one kernel less than the text."""
    head = "kernel __attribute__((nothrow)) void k(device int *out [[buffer(0)]])"
    with pytest.raises(MSLError, match=r"^k: its parameters cannot be read"):
        compile_msl(f"{HEAD}{head} {{ out[0] = 1; }}")


def test_a_constant_that_is_none_is_refused():
    """Metal runs nothing before a kernel. Else it would be zero."""
    text = "float f() { return sin(1.0f); }\nconstant float x = f();\n"
    with pytest.raises(MSLError, match="no constant expression"):
        compile_msl(f"{HEAD}{text}kernel void k(device float *out [[buffer(0)]]) {{ out[0] = x; }}")


def test_functions_of_the_text_are_part_of_the_kernels_that_call_them(msl):
    program = msl("""
    __attribute__((noinline)) float apart(float x) { return x < 4 ? x * 2 : x + 1; }
    float plain(float x) { return apart(x) + 1; }
    __attribute__((noinline)) void put(device float *out, uint i, thread float &x) {
      out[i] = plain(x);
      x += 1;
    }
    kernel void k(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
      float x = i;
      put(out, i, x);
      put(out, i, x);
    }""")
    out = np.zeros(32, np.float32)
    launch(program, "k", 1, 32, {0: out})
    x = np.arange(1, 33)
    np.testing.assert_array_equal(out, np.where(x < 4, x * 2, x + 1) + 1)


def test_a_function_that_calls_itself_is_named():
    module = Module(
        compile_msl(f"""{HEAD}
    __attribute__((noinline)) int apart(int x) {{ return x < 2 ? x : apart(x - 1) * apart(x - 2); }}
    kernel void k(device int *out [[buffer(0)]]) {{ out[0] = apart(out[1]); }}
    """)
    )
    with pytest.raises(AIRError, match=r"apart.* is called, where only Metal's own functions"):
        translate(module, "k")
