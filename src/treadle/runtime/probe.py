"""What this machine can do at best, measured: multiply-adds, and bytes read and written a second.

    fma_peak(1 << 22)         ->  2.4e11
    stream_rates(1 << 26)     ->  Rates(read=2.9e10, write=3.1e10, copy=3.0e10)

The probes are independent of treadle's own kernels: loops in LLVM IR that are written out here. All
cores run them at once, each on memory of its own. The best of many short moments counts: whatever
else the machine does makes others slower, and nothing makes one quicker.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import threading
import time
from bisect import bisect
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ..dtype import dtypes
from ..target import available_cores, host_target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llvmlite.binding.executionengine import ExecutionEngine

    from ..target import Target

__all__ = ["Rates", "fma_peak", "rate", "stream_rates"]

ROUNDS = 7
BURSTS = 120  # calls of a probe on each core
_STRETCH = 4  # of them in what is measured
_LINE = 64  # bytes of a vector of the streams
_VECTORS = 8  # of these in a step
_APART = 2048  # bytes: a load waits for a store whose address ends in the same 12 bits
_PART = 2 << 20  # bytes that a call moves of more than a second-level cache
_LEAST_SECONDS = 1e-4  # of a call, since two are a microsecond apart

_Span = tuple[float, float]


class Rates(NamedTuple):
    """Bytes a second of all cores: only read, only written, and as many read as written."""

    read: float
    write: float
    copy: float

    def best(self, other: Rates) -> Rates:
        """The higher of both, each."""
        return Rates(*map(max, self, other))

    def seconds(self, read: int, written: int) -> float:
        """The least time in which so many bytes are moved: what is neither one alone is a copy."""
        both = min(read, written)
        return 2 * both / self.copy + (read - both) / self.read + (written - both) / self.write


def rate(amount: float, function: Callable[[], object]) -> float:
    """`amount` a second, at the best of some calls of `function`."""
    function()
    return amount / min(_timed(function) for _ in range(ROUNDS))


def _timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _rate_of_cores(amount: float, function: Callable[[int, int], object], *, shares: bool) -> float:
    """`amount` a second, for all cores that call `function` with their number and the call's.

    The best of short stretches of time, whichever other processes had some core before it or
    afterwards: of all cores in the same stretch if they share what is measured, else of each.
    """
    cores = available_cores()
    spans: list[list[_Span]] = [[] for _ in range(cores)]
    meeting = threading.Barrier(cores)

    def run(core: int) -> None:
        function(core, 0)  # warms up
        meeting.wait()
        for number in range(BURSTS):
            start = time.perf_counter()
            function(core, number)
            spans[core].append((start, time.perf_counter()))

    # ctypes lets go of the interpreter's lock during a call, so plain threads do here.
    threads = [threading.Thread(target=run, args=(core,)) for core in range(cores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    each = [_stretches(calls) for calls in spans]
    if shares:
        best = max(sum(_calls_in(s, c) for c in spans) / (s[1] - s[0]) for s in chain(*each))
    else:
        best = sum(_STRETCH / min(end - begin for begin, end in stretches) for stretches in each)
    return amount * best


def _stretches(calls: Sequence[_Span]) -> list[_Span]:
    """Every few calls one after the other."""
    return [(first[0], last[1]) for first, last in zip(calls, calls[_STRETCH - 1 :], strict=False)]


def _calls_in(stretch: _Span, calls: Sequence[_Span]) -> float:
    """How many of a core's calls are in a stretch of time, with parts of those at its ends."""
    begin, end = stretch
    found = 0.0
    for first, last in calls[max(0, bisect(calls, stretch) - 1) :]:
        if first >= end:
            break
        found += max(0.0, min(last, end) - max(first, begin)) / (last - first)
    return found


# -- arithmetic -----------------------------------------------------------------------------------


def fma_peak(steps: int, target: Target | None = None) -> float:
    """Multiply-adds of all cores at once, each on independent accumulators in registers.

    In the instructions of `target`, by default all that this machine has.
    """
    target = target or host_target()
    # Three quarters of the registers: no accumulator spills, and none is waited for.
    lanes, accumulators = target.lanes(dtypes.float32), target.vector_registers * 3 // 4
    engine = _compile(_fma_source(lanes, accumulators), target)
    address = engine.get_function_address("probe")
    probe = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(address)
    flops = 2.0 * lanes * accumulators * steps
    return _rate_of_cores(flops, lambda core, number: probe(steps), shares=False)


def _fma_source(lanes: int, accumulators: int) -> str:
    """LLVM IR of `float probe(int64 steps)`: the loop, then a sum so that nothing is dropped."""
    vector, each = f"<{lanes} x float>", range(accumulators)
    slope, step = _splat(lanes, "0x3FEFFFFFE0000000"), _splat(lanes, "1.0")
    # Each accumulator starts elsewhere, or the compiler would merge them all into one.
    starts = [_splat(lanes, f"{i + 2}.0") for i in each]
    phis = "\n".join(f"%a{i} = phi {vector} [{starts[i]}, %top], [%b{i}, %loop]" for i in each)
    call = f"call {vector} @llvm.fmuladd.v{lanes}f32({vector}"
    fmas = "\n".join(f"%b{i} = {call} %a{i}, {vector} {slope}, {vector} {step})" for i in each)
    sums = "\n".join(
        f"%s{i} = fadd {vector} {'%b0' if i == 1 else f'%s{i - 1}'}, %b{i}" for i in each if i
    )
    return f"""
declare {vector} @llvm.fmuladd.v{lanes}f32({vector}, {vector}, {vector})
define float @probe(i64 %steps) "prefer-vector-width"="512" {{
top:
  br label %loop
loop:
  %n = phi i64 [0, %top], [%next, %loop]
  {phis}
  {fmas}
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %loop, label %done
done:
  {sums}
  %r = extractelement {vector} %s{accumulators - 1}, i32 0
  ret float %r
}}
"""


def _splat(lanes: int, value: str) -> str:
    return f"<{', '.join([f'float {value}'] * lanes)}>"


# -- memory ---------------------------------------------------------------------------------------


def stream_rates(nbytes: int, target: Target | None = None, *, shares: bool = True) -> Rates:
    """The rates of streams through `nbytes` of each core, again and again: of the cache that they
    fit into, which cores share or not.

    Stores around the caches count where they are quicker, and so does reading at two places.
    """
    engine = _streams(target or host_target())
    nbytes -= nbytes % (2 * _LINE * _VECTORS)
    with contextlib.closing(mmap.mmap(-1, nbytes * available_cores())) as memory:
        if hasattr(memory, "madvise") and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a system without them
                memory.madvise(mmap.MADV_HUGEPAGE)
        first = ctypes.c_char.from_buffer(memory)
        address, copied = ctypes.addressof(first), nbytes // 2 - _APART

        def measured(name: str, source: int, length: int) -> float:
            """What is moved from `source` to the beginning of each core's memory, a part a call."""
            stream = _STREAM(engine.get_function_address(name))
            part, rounds = min(length, _PART), 1

            def run(core: int, number: int) -> None:
                target = address + core * nbytes + number % (length // part) * part
                stream(target + source, target, part, rounds)

            while _timed(lambda: run(0, 0)) < _LEAST_SECONDS and part == length:
                rounds *= 2
            moved = rounds * (2 * part if source else part)
            return _rate_of_cores(moved, run, shares=shares)

        # Written first: memory that nobody has written to is one page of zeros.
        write = max(measured(name, 0, nbytes) for name in ("write", "write_around"))
        copy = max(measured(name, nbytes - copied, copied) for name in ("copy", "copy_around"))
        read_two = measured("read_two", nbytes - copied, copied)
        read = max(measured("read", 0, nbytes), read_two)
        del first  # which keeps the memory from being closed
    return Rates(read, write, copy)


_STREAM = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int64)


@functools.cache
def _streams(target: Target) -> ExecutionEngine:
    return _compile(_streams_source(), target)


def _streams_source() -> str:
    """LLVM IR of `void NAME(char *source, char *target, int64 bytes, int64 rounds)` for each."""
    return "\n".join(
        (
            _stream_source("read", loads=True),
            _stream_source("read_two", loads=True, loads_target=True),
            _stream_source("write", stores=True),
            _stream_source("write_around", stores=True, around=True),
            _stream_source("copy", loads=True, stores=True),
            _stream_source("copy_around", loads=True, stores=True, around=True),
            "!0 = !{i32 1}",
        )
    )


def _stream_source(
    name: str,
    *,
    loads: bool = False,
    loads_target: bool = False,
    stores: bool = False,
    around: bool = False,
) -> str:
    """A loop over memory in another over rounds; volatile loads stay, though nobody uses them."""
    vector, each = f"<{_LINE // 4} x i32>", range(_VECTORS)
    body: list[str] = []
    for i in each:
        body.append(f"%o{i} = add i64 %n, {i * _LINE}")
        if loads:
            body.append(f"%p{i} = getelementptr i8, ptr %source, i64 %o{i}")
            body.append(f"%v{i} = load volatile {vector}, ptr %p{i}, align {_LINE}")
        if loads_target:
            body.append(f"%q{i} = getelementptr i8, ptr %target, i64 %o{i}")
            body.append(f"%w{i} = load volatile {vector}, ptr %q{i}, align {_LINE}")
        if stores:
            value = f"%v{i}" if loads else "zeroinitializer"
            hint = ", !nontemporal !0" if around else ""
            body.append(f"%q{i} = getelementptr i8, ptr %target, i64 %o{i}")
            body.append(f"store {vector} {value}, ptr %q{i}, align {_LINE}{hint}")
    lines = "\n  ".join(body)
    return f"""
define void @{name}(ptr %source, ptr %target, i64 %bytes, i64 %rounds)
    "prefer-vector-width"="512" {{
top:
  br label %round
round:
  %k = phi i64 [0, %top], [%following, %end]
  br label %loop
loop:
  %n = phi i64 [0, %round], [%next, %loop]
  {lines}
  %next = add i64 %n, {_LINE * _VECTORS}
  %more = icmp slt i64 %next, %bytes
  br i1 %more, label %loop, label %end
end:
  %following = add i64 %k, 1
  %again = icmp slt i64 %following, %rounds
  br i1 %again, label %round, label %done
done:
  ret void
}}
"""


def _compile(source: str, target: Target) -> ExecutionEngine:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=target.features, opt=2
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(source), machine)
    engine.finalize_object()
    return engine
