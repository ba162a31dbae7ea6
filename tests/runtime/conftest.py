"""A CPU device with four threads, and small kernels to run on it."""

import pytest

from treadle.compile import LLVMCompiler
from treadle.runtime.cpu import CpuDevice, Entry
from treadle.target import host_target

KERNELS = """
; counts[i] += 1 for each i of the slice, without atomics: a slice run twice shows
define void @mark(ptr %args, ptr %vars, i64 %begin, i64 %end) {
entry:
  %counts = load ptr, ptr %args
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %out
body:
  %at = getelementptr i64, ptr %counts, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  br label %head
out:
  ret void
}
; reversed[i] = counts[n - 1 - i] * vars[1], n = vars[0]
define void @mirror(ptr %args, ptr %vars, i64 %begin, i64 %end) {
entry:
  %counts = load ptr, ptr %args
  %slot = getelementptr ptr, ptr %args, i64 1
  %reversed = load ptr, ptr %slot
  %n = load i64, ptr %vars
  %pscale = getelementptr i64, ptr %vars, i64 1
  %scale = load i64, ptr %pscale
  %last = sub i64 %n, 1
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %out
body:
  %from = sub i64 %last, %i
  %pfrom = getelementptr i64, ptr %counts, i64 %from
  %value = load i64, ptr %pfrom
  %scaled = mul i64 %value, %scale
  %to = getelementptr i64, ptr %reversed, i64 %i
  store i64 %scaled, ptr %to
  %next = add i64 %i, 1
  br label %head
out:
  ret void
}
"""


@pytest.fixture(scope="session")
def compiler():
    return LLVMCompiler(host_target())


@pytest.fixture
def cpu(compiler):
    return CpuDevice("CPU", host_target(), compiler.compile, threads=4)


@pytest.fixture(scope="session")
def kernel_object(compiler):
    return compiler.compile(KERNELS)


@pytest.fixture
def kernels(cpu, kernel_object):
    return cpu.load(kernel_object, [Entry("mark", 1), Entry("mirror", 1)])


@pytest.fixture
def numbers(cpu):
    """Makes zeroed arrays of int64: the buffer and its view."""

    def make(count):
        buffer = cpu.allocator.alloc(8 * count)
        view = buffer.view().cast("q")
        view[:] = memoryview(bytes(8 * count)).cast("q")
        return buffer, view

    return make


@pytest.fixture(scope="session")
def stub(tmp_path_factory):
    """Runs Python code beside a libcuda of our own; see libcuda.py."""
    from .libcuda import runner  # scripts of tests import this file by itself

    return runner(tmp_path_factory.mktemp("libcuda"))
