"""An external clang compiles C; its absence and its failures are told clearly."""

import ctypes
import os
import stat

import numpy as np
import pytest

from treadle import Tensor
from treadle.compile import ClangCompiler
from treadle.compile.clang import target_flags
from treadle.engine.inventory import inventory
from treadle.errors import DeviceError, InternalError
from treadle.runtime.loader import load_object
from treadle.target import host_target, parse_target

missing = ClangCompiler(host_target()).available()
needs_clang = pytest.mark.skipif(missing is not None, reason=missing or "")

LANES = """typedef float lanes __attribute__((ext_vector_type(16)));
void f(lanes *x) { *x *= 2; }
"""
SQUARE = "long square(long x) { return x * x; }"


@needs_clang
def test_c_compiles_to_an_object_that_loads_and_runs():
    compiler = ClangCompiler(host_target())
    library = load_object(compiler.compile(SQUARE), ["square"])
    function = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(library.address("square"))
    assert function(12) == 144
    assert "clang" in compiler.version.lower()
    assert compiler.name == "CLANG"


@needs_clang
def test_copies_and_tables_resolve_in_this_process():
    source = """
        static const long table[4] = {1, 2, 3, 4};
        struct big { char bytes[4096]; };
        void copy(struct big *to, const struct big *from) { *to = *from; }
        long at(long i) { return table[i]; }
    """
    library = load_object(ClangCompiler(host_target()).compile(source), ["copy", "at"])
    assert ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(library.address("at"))(2) == 3
    a, b = (ctypes.c_char * 4096)(), (ctypes.c_char * 4096)(*b"hello")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("copy"))(
        ctypes.addressof(a), ctypes.addressof(b)
    )
    assert a.value == b"hello"


@needs_clang
@pytest.mark.parametrize("arch", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_other_targets_compile(arch):
    assembly = ClangCompiler(parse_target(arch)).assembly(SQUARE)
    assert ("imul" in assembly) == arch.startswith("x86")


@needs_clang
def test_features_reach_clang():
    assert "zmm" in ClangCompiler(parse_target("x86-64-v4")).assembly(LANES)
    assert "zmm" not in ClangCompiler(parse_target("x86_64,x86-64-v4,-avx512f")).assembly(LANES)


FUSED = """#pragma clang fp contract({})
typedef float lanes __attribute__((ext_vector_type(8)));
lanes of_lanes(lanes a, lanes b, lanes c) {{ lanes d = a * b; return d + c; }}
float of_one(float a, float b, float c) {{ float d = a * b; return d + c; }}
"""


@needs_clang
@pytest.mark.parametrize(("contract", "count"), [("fast", 2), ("off", 0)])
def test_the_text_says_whether_products_and_sums_are_fused(contract, count):
    """REPRODUCIBLE=1 asks for "off", and exponentials were a unit away from what folds."""
    compiler = ClangCompiler(parse_target("x86-64-v3"))
    assert compiler.assembly(FUSED.format(contract)).count("vfmadd") == count


@needs_clang
def test_a_step_reads_what_it_has_stored():
    """clang 14 put rows side by side in lanes, and then loaded before it stored."""
    weights = np.arange(54, dtype=np.float32).reshape(2, 3, 9)
    x = Tensor(np.zeros((2, 3, 4), np.float32), device="CPU:CLANG", requires_grad=True)
    (x.interpolate(9, "area") * Tensor(weights, device="CPU:CLANG")).sum().backward()
    expected = np.zeros((2, 3, 4))
    for i in range(9):
        places = range(i * 4 // 9, -(-(i + 1) * 4 // 9))
        for place in places:
            expected[..., place] += weights[..., i] / len(places)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


@needs_clang
def test_rejected_source_is_saved_and_named():
    with pytest.raises(InternalError, match="clang rejected generated C") as raised:
        ClangCompiler(host_target()).compile("int f( {")
    path = str(raised.value).split("saved as ")[1].split(")")[0]
    with open(path) as file:
        assert file.read() == "int f( {"
    os.unlink(path)
    os.rmdir(os.path.dirname(path))


@needs_clang
def test_an_unknown_cpu_is_told_with_a_way_out():
    compiler = ClangCompiler(parse_target("x86_64,znver99"))
    assert compiler.cpu == "znver99"
    with pytest.raises(DeviceError, match=r"cannot compile for znver99.*use a newer clang"):
        compiler.compile(SQUARE)


def test_a_missing_clang_is_told_with_its_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    compiler = ClangCompiler(host_target())
    with pytest.raises(DeviceError, match=r"no clang on the PATH; install it .*apt install clang"):
        compiler.compile(SQUARE)
    assert "no clang on the PATH" in str(compiler.available())


def test_a_named_clang_that_is_missing_is_named():
    with pytest.raises(DeviceError, match="no clang-of-mine on the PATH"):
        ClangCompiler(host_target(), "clang-of-mine").compile(SQUARE)


def script(folder, text):
    path = folder / "clang"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


needs_shell = pytest.mark.skipif(os.name != "posix", reason="uses shell scripts as compilers")


@needs_shell
def test_a_clang_that_hangs_is_stopped(monkeypatch, tmp_path):
    monkeypatch.setattr("treadle.compile.clang._TIMEOUT_SECONDS", 0.2)
    compiler = ClangCompiler(host_target(), script(tmp_path, "exec sleep 30"))
    with pytest.raises(DeviceError, match=r"did not finish within 0\.2 seconds"):
        compiler.compile(SQUARE)


@needs_shell
def test_a_clang_that_cannot_start_is_told(tmp_path):
    path = script(tmp_path, "")
    with open(path, "wb") as file:
        file.write(b"\x7fELF nonsense")
    with pytest.raises(DeviceError, match="cannot be started"):
        ClangCompiler(host_target(), path).compile(SQUARE)


# -- clangs that are older than the processor ---------------------------------------------------

# It takes what clang 14 takes, says what clang 14 says, and writes its arguments as the object.
OLD_CLANG = """
if [ "$1" = --version ]; then echo "Debian clang version 14.0.6"; exit; fi
for word; do
  case "$word" in
    -march=znver[45]) echo "error: unknown target CPU '${word#-march=}'" >&2; exit 1;;
    -mcpu=neoverse-v2) echo "error: unsupported argument 'neoverse-v2' to option '-mcpu='" >&2
      exit 1;;
  esac
done
echo "$@"
"""


@needs_shell
@pytest.mark.parametrize(
    ("arch", "cpu", "flag"),
    [
        ("x86_64,znver5", "znver3", "-march=znver3"),
        ("x86_64,znver4,-avx512f", "znver3", "-march=znver3"),
        ("x86_64,znver3", "znver3", "-march=znver3"),
        ("x86_64,graniterapids", "graniterapids", "-march=graniterapids"),
        ("aarch64,neoverse-v2", "neoverse-n2", "-mcpu=neoverse-n2"),
    ],
)
def test_an_old_clang_compiles_for_the_newest_cpu_that_it_knows(arch, cpu, flag, tmp_path):
    compiler = ClangCompiler(parse_target(arch), script(tmp_path, OLD_CLANG))
    assert compiler.cpu == cpu
    assert flag in compiler.compile(SQUARE).decode().split()


@needs_shell
def test_an_older_cpu_gets_the_features_of_the_newer_one(tmp_path):
    compiler = ClangCompiler(parse_target("x86_64,znver5,-avx512vnni"), script(tmp_path, OLD_CLANG))
    words = compiler.compile(SQUARE).decode().split()
    told = [word for word in words if word[1:].startswith(("avx512", "avx2"))]
    assert {"+avx2", "+avx512f", "+avx512vl", "+avx512bf16", "+avx512vbmi"} <= {*told}
    assert told[-1] == "-avx512vnni"  # the last word counts
    assert "-mprefer-vector-width=512" in words


@needs_clang
@pytest.mark.parametrize("cpu", ["znver5", "graniterapids", "meteorlake"])
def test_any_clang_compiles_for_todays_processors(cpu):
    target = parse_target(f"x86_64,{cpu}")
    assembly = ClangCompiler(target).assembly(LANES)
    assert ("zmm" in assembly) == (target.vector_bytes == 64)


@needs_shell
def test_the_newest_clang_on_the_path_is_taken(monkeypatch, tmp_path):
    folders = []
    for name, version in [("clang", "14.0.6"), ("clang-9", "9.0.1"), ("clang-19", "19.1.7")]:
        (folder := tmp_path / name).mkdir()
        os.rename(script(folder, f"echo Debian clang version {version}"), folder / name)
        folders.append(str(folder))
    (tmp_path / "clang" / "clang-format-20").touch(mode=0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(["/no/such/folder", *folders]))
    assert ClangCompiler(host_target()).path == str(tmp_path / "clang-19" / "clang-19")
    assert ClangCompiler(host_target(), "clang").path == str(tmp_path / "clang" / "clang")
    monkeypatch.setenv("PATH", folders[1])
    assert ClangCompiler(host_target()).version == "Debian clang version 9.0.1"


@needs_shell
def test_doctor_says_no_where_a_clang_compiles_nothing(monkeypatch, tmp_path):
    script(tmp_path, '[ "$1" = --version ] && echo clang version 14.0.6 || exec false')
    monkeypatch.setenv("PATH", str(tmp_path))
    (row,) = (row for row in inventory() if row.compiler == "CLANG")
    assert not row.usable
    assert "clang rejected generated C" in row.reason
    assert row.fix.startswith("install another version")


def test_flags_name_triple_cpu_and_each_feature():
    flags = target_flags(parse_target("aarch64,neoverse-v1,bf16"))
    assert "-mcpu=neoverse-v1" in flags
    assert flags[-8:] == [
        "-Xclang", "-target-feature", "-Xclang", "+neon",
        "-Xclang", "-target-feature", "-Xclang", "+bf16",
    ]  # fmt: skip
