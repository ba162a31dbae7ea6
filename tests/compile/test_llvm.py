"""The embedded LLVM compiles for every target, quickly thanks to few passes, from many threads."""

import ctypes
import os
import re
import stat
import sys
import threading

import pytest

from treadle.compile import LLVMCompiler
from treadle.errors import DeviceError, InternalError
from treadle.runtime.loader import load_object
from treadle.target import host_target, parse_target

ADD = "define i32 @add(i32 %a, i32 %b) {\n %c = add i32 %a, %b\n ret i32 %c\n}\n"


def accumulate(lanes):
    """A loop whose counter and accumulator are allocas, as kernels arrive."""
    vector = f"<{lanes} x float>"
    return f"""
define void @sum(ptr %args, ptr %vars, i64 %begin, i64 %end) #0 {{
entry:
  %in = load ptr, ptr %args
  %slot = getelementptr ptr, ptr %args, i64 1
  %out = load ptr, ptr %slot
  %acc = alloca {vector}, align 64
  %i = alloca i64
  store {vector} zeroinitializer, ptr %acc
  store i64 %begin, ptr %i
  br label %head
head:
  %now = load i64, ptr %i
  %more = icmp slt i64 %now, %end
  br i1 %more, label %body, label %done
body:
  %at = getelementptr {vector}, ptr %in, i64 %now
  %x = load {vector}, ptr %at, align 4
  %old = load {vector}, ptr %acc
  %new = call {vector} @llvm.fma.v{lanes}f32({vector} %x, {vector} %x, {vector} %old)
  store {vector} %new, ptr %acc
  %next = add i64 %now, 1
  store i64 %next, ptr %i
  br label %head
done:
  %total = load {vector}, ptr %acc
  store {vector} %total, ptr %out, align 4
  ret void
}}
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
attributes #0 = {{ nounwind "prefer-vector-width"="512" }}
"""


@pytest.mark.parametrize(
    ("arch", "machine"),
    [("x86-64-v2", 62), ("x86-64-v3", 62), ("x86-64-v4", 62), ("aarch64", 183), ("riscv64", 243)],
)
def test_objects_are_made_for_machines_other_than_this_one(arch, machine):
    target = parse_target(arch)
    code = LLVMCompiler(target).compile(accumulate(target.vector_bytes // 4))
    if "linux" in target.triple:
        assert code[:4] == b"\x7fELF"
        assert int.from_bytes(code[18:20], "little") == machine
    assert b"sum" in code


@pytest.mark.parametrize(
    ("arch", "register", "fma"),
    [("x86-64-v3", "ymm", "vfmadd"), ("x86-64-v4", "zmm", "vfmadd"), ("aarch64", "v0", "fmla")],
)
def test_accumulators_stay_in_vector_registers(arch, register, fma):
    target = parse_target(arch)
    assembly = LLVMCompiler(target).assembly(accumulate(target.vector_bytes // 4))
    assert assembly.count(fma) == 1
    assert register in assembly
    assert not re.search(r"\(%rsp\)|\[sp", assembly)


def test_rejected_ir_is_saved_privately_and_the_error_names_the_file():
    broken = "define i32 @f() { ret void }"
    with pytest.raises(InternalError, match="LLVM rejected generated IR") as raised:
        LLVMCompiler(host_target()).compile(broken)
    path = str(raised.value).rsplit("IR: ", 1)[1]
    with open(path) as file:
        assert file.read() == broken
    if os.name == "posix":
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    os.unlink(path)
    os.rmdir(os.path.dirname(path))


def test_invalid_ir_that_parses_is_rejected_too():
    unreachable_value = (
        "define i32 @f(i1 %c) {\n br i1 %c, label %a, label %b\na:\n %x = add i32 1, 2\n"
        " br label %b\nb:\n ret i32 %x\n}"
    )
    with pytest.raises(InternalError, match="dominate"):
        LLVMCompiler(host_target()).compile(unreachable_value)


def test_the_same_ir_gives_the_same_bytes():
    compiler = LLVMCompiler(host_target())
    assert (
        compiler.compile(ADD) == compiler.compile(ADD) == LLVMCompiler(host_target()).compile(ADD)
    )


def test_quick_code_computes_the_same_and_is_hardly_optimised():
    compiler, rows = LLVMCompiler(host_target()), accumulate(16)
    assert len(compiler.compile(rows, quick=True)) > len(compiler.compile(rows))
    for quick in (False, True):
        library = load_object(compiler.compile(ADD, quick=quick), ["add"])
        add = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)
        assert add(library.address("add"))(40, 2) == 42


def test_threads_compile_at_once():
    compiler = LLVMCompiler(host_target())
    expected = [compiler.compile(ADD.replace("%a, %b", f"%a, {n}")) for n in range(6)]
    results: dict[int, bytes] = {}

    def work(n):
        for _ in range(3):
            results[n] = compiler.compile(ADD.replace("%a, %b", f"%a, {n}"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[n] for n in range(6)] == expected


def test_version_and_availability_are_told():
    compiler = LLVMCompiler(host_target())
    assert re.fullmatch(r"llvmlite \d+\.\d+\.\S+", compiler.version)
    assert compiler.available() is None
    assert compiler.name == "LLVM"


def test_a_missing_llvmlite_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    compiler = LLVMCompiler(host_target())
    assert "pip install llvmlite" in str(compiler.available())
    with pytest.raises(DeviceError, match="is missing"):
        assert compiler.version


def test_an_old_llvmlite_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setattr("llvmlite.__version__", "0.44.1")
    reason = LLVMCompiler(host_target()).available()
    assert reason is not None
    assert "llvmlite 0.44.1 is too old for treadle, which needs 0.45" in reason
