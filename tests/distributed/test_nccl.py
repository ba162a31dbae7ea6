"""Groups of processes whose GPUs NCCL connects, with a fake of it on the emulated GPU.

What NCCL itself does is checked on hardware alone: `python -m treadle.bench.gpu --only NCCL`.
"""

from __future__ import annotations

import gc
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest

from treadle import Context, Device, Tensor, TinyJit
from treadle.distributed import Group
from treadle.engine.background_calls import finish_calls
from treadle.engine.collectives import used
from treadle.errors import DeviceError, DistributedError
from treadle.ir.op import Op
from treadle.runtime import nccl
from treadle.runtime.communicator import Call
from treadle.target import host_target

from .fake_nccl import FakeNCCL
from .job import NEEDS_MPI, run

if host_target().arch != "x86_64":
    pytest.skip("the emulator is for x86-64 here", allow_module_level=True)

from treadle.emulate.cuda import EmulatedDriver
from treadle.runtime.cuda import CUDADevice, target_of

SIZE = 3
TIME = 20.0  # seconds that threads wait for each other


class Process:
    """One of SIZE threads, as a communicator of memory of the host."""

    name = "world"

    def __init__(self, rank: int, rows: list, meeting: threading.Barrier) -> None:
        self.rank, self.size = rank, len(rows)
        self._rows, self._meeting = rows, meeting

    def take_part(self, call: Call, given, result) -> None:
        self._rows[self.rank] = call.check or call.described(), given
        self._meeting.wait(TIME)
        rows = list(self._rows)
        self._meeting.wait(TIME)
        if len({said for said, _ in rows}) > 1:
            raise DistributedError(f"different calls: {[said for said, _ in rows]}")
        if result is not None:
            result[...] = np.stack([row for _, row in rows])


def together(function):
    """What `function` returns, or raises, in each of the threads."""
    rows: list = [None] * SIZE
    meeting = threading.Barrier(SIZE)
    found: list = [None] * SIZE

    def run(rank: int) -> None:
        try:
            found[rank] = function(Process(rank, rows, meeting))
        except BaseException as error:
            found[rank] = error
            meeting.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(SIZE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * TIME)
    return found


class Mirror:
    """A group of two, of which the other one does what this one does."""

    name, rank, size = "world", 0, 2

    def __init__(self) -> None:
        self.calls: list[tuple[Call, bool]] = []

    def take_part(self, call: Call, given, result) -> None:
        self.calls.append((call, given is not None))
        if call.kind == "all_gather":
            result[...] = np.stack([given, given])
        elif result is not None:
            result[...] = given + given

    def steps(self, call: Call, given, result):
        self.take_part(call, given, result)
        yield from ()


@pytest.fixture
def device():
    return CUDADevice("CUDA", EmulatedDriver("sm_80"), 0, target_of)


@pytest.fixture
def fake(monkeypatch):
    made = FakeNCCL(SIZE)
    made.install(monkeypatch)
    yield made
    nccl.is_installed.cache_clear()


@pytest.fixture
def mirror(fake, monkeypatch):
    """A group of two, and an emulated GPU that is taken for a real one."""
    pytest.importorskip("cuda.bindings")
    fake.together = 1
    runtime = Device["CUDA:PTX"].runtime
    if not runtime.is_software:
        pytest.skip("a real GPU is here")
    monkeypatch.setattr(runtime, "is_software", False)
    monkeypatch.setattr(used, "is_used", True)
    yield Group(Mirror())
    finish_calls()


def part(device, data: np.ndarray, dtype: str = "") -> nccl.Part:
    buffer = device.allocator.alloc(data.nbytes)
    device.write(buffer, memoryview(data.reshape(-1).view(np.uint8)))
    return nccl.Part(buffer, dtype or data.dtype.name, data.size, data.itemsize)


def values(device, one: nccl.Part, dtype) -> np.ndarray:
    found = np.empty(one.size, dtype)
    device.read(one.buffer, memoryview(found.view(np.uint8)))
    return found


def called(connected, device, call: Call, given: np.ndarray, result: np.ndarray) -> np.ndarray:
    parts = [part(device, given)], [part(device, result)]
    begun = connected.begin(call, parts[1])
    connected.take_part(call, f"{given.dtype} {given.shape}", *parts, begun)
    return values(device, parts[1][0], result.dtype).reshape(result.shape)


# -- values ---------------------------------------------------------------------------------------

EVERY = np.arange(SIZE * SIZE * 4).reshape(SIZE, SIZE, 4) % 7 + 1
RANKS = list(range(SIZE))
EXPECTED = {
    Call("all_reduce", Op.ADD): (EVERY, [EVERY.sum(0)] * SIZE),
    Call("all_reduce", Op.MUL): (EVERY, [EVERY.prod(0)] * SIZE),
    Call("all_reduce", Op.MAX): (EVERY, [EVERY.max(0)] * SIZE),
    Call("all_reduce", Op.MIN): (EVERY, [EVERY.min(0)] * SIZE),
    Call("reduce", Op.ADD, 1): (EVERY, [EVERY.sum(0) * (r == 1) for r in RANKS]),
    Call("broadcast", peer=2): (EVERY, [EVERY[2]] * SIZE),
    Call("all_gather"): (EVERY, [EVERY] * SIZE),
    Call("reduce_scatter", Op.MAX): (EVERY, list(EVERY.max(0))),
    Call("all_to_all"): (EVERY, list(EVERY.swapaxes(0, 1))),
}


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("call", EXPECTED, ids=lambda c: f"{c.kind}-{c.op.name if c.op else ''}")
def test_each_process_has_what_the_table_of_calls_says(fake, device, call, dtype):
    given, expected = EXPECTED[call]

    def program(group: Process):
        connected = nccl.connection(group, device, "")
        assert connected is not None
        result = np.full_like(expected[group.rank], 99).astype(dtype)
        return called(connected, device, call, given[group.rank].astype(dtype), result)

    for rank, found in enumerate(together(program)):
        np.testing.assert_array_equal(found, expected[rank].astype(dtype))


def test_what_is_moved_are_bytes_whatever_the_dtype_and_what_is_combined_is_not(fake, device):
    kinds = ("all_gather", "all_to_all", "broadcast")
    assert all(nccl.serves(Call(kind), dtype) for kind in kinds for dtype in ("int16", "bool"))
    reduced = Call("all_reduce", Op.ADD)
    assert nccl.serves(reduced, "bfloat16")
    assert not any(nccl.serves(reduced, dtype) for dtype in ("int16", "bool", "complex64"))
    assert not any(nccl.serves(Call(kind), "float32") for kind in ("send", "receive", "barrier"))


def test_memory_without_elements_is_compared_and_not_exchanged(fake, device):
    def program(group: Process):
        connected = nccl.connection(group, device, "")
        assert connected is not None
        empty = np.empty((0, 3), np.float32)
        return called(connected, device, Call("all_reduce", Op.ADD), empty, empty).shape

    assert together(program) == [(0, 3)] * SIZE
    assert not fake.log


def test_several_arrays_go_in_one_group_of_calls(fake, device):
    def program(group: Process):
        connected = nccl.connection(group, device, "")
        assert connected is not None
        given = [part(device, np.full(n, group.rank, np.float32)) for n in (3, 5)]
        results = [part(device, np.zeros(n, np.float32)) for n in (3, 5)]
        call = Call("all_reduce", Op.ADD)
        connected.take_part(call, "float32 (8,)", given, results, connected.begin(call, results))
        return [values(device, one, np.float32).tolist() for one in results]

    assert together(program) == [[[3.0] * 3, [3.0] * 5]] * SIZE
    assert [c[2:] for c in fake.log if c[1] == 0] == [(3, 7, 0), (5, 7, 0)]


# -- the beginning and the end --------------------------------------------------------------------


def test_a_group_is_connected_once_and_all_let_go_of_it_at_the_end(fake, device):
    def program(group: Process):
        first, second = (nccl.connection(group, device, "") for _ in range(2))
        assert first is second
        return first

    opened = together(program)
    assert len(set(map(id, opened))) == SIZE
    closing = [threading.Thread(target=one.close) for one in opened]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(TIME)
    assert sorted(fake.log) == [("destroy", rank) for rank in RANKS]
    nccl.close_nccl()  # and no second time
    assert len(fake.log) == SIZE
    assert not nccl._connections


def test_who_does_not_come_to_the_end_is_not_waited_for(fake, device, monkeypatch):
    monkeypatch.setattr(nccl, "_CLOSING", 0.05)
    opened = together(lambda group: nccl.connection(group, device, ""))
    opened[0].close()
    assert fake.log == [("abort", 0)]


def test_what_connects_them_ends_at_once_where_a_process_is_gone(fake, device):
    opened = together(lambda group: nccl.connection(group, device, ""))
    nccl.abort_nccl()
    assert sorted(fake.log) == [("abort", rank) for rank in RANKS]
    call = Call("all_reduce", Op.ADD)
    with pytest.raises(DistributedError, match="failed before: a smaller group goes on"):
        called(opened[0], device, call, np.ones(1, np.float32), np.ones(1, np.float32))


@pytest.mark.parametrize("how", ["refused", "asynchronous", "late"])
def test_all_go_by_the_host_where_one_cannot_be_connected(fake, device, how, monkeypatch):
    def program(group: Process):
        with Context(DISTRIBUTED_TIMEOUT=1):
            return nccl.open_nccl(group, device, "")

    real = fake.comm_init_rank_config

    def of_one(nranks, comm_id, rank, config):
        comm = real(nranks, comm_id, rank, config)
        if rank == 1 and how == "refused":
            raise fake.NCCLError("InvalidUsage (5): invalid usage")
        return comm

    monkeypatch.setattr(fake, "comm_init_rank_config", of_one)
    if how == "asynchronous":
        fake.state, fake.last_error = 4, "Duplicate GPU detected"
    fake.hangs = how == "late"
    words = {
        "refused": "process 1: InvalidUsage (5): invalid usage",
        "asynchronous": "invalid argument (Duplicate GPU detected)",
        "late": "did not come to the end of the opening within 0.5 seconds",
    }
    found = together(program)
    assert len(set(found)) == 1, found
    assert words[how] in found[0]
    expected = RANKS if how != "refused" else [0, 2]
    assert sorted(fake.log) == [("abort", rank) for rank in expected]


def test_a_library_that_is_missing_is_said_once(fake, device, monkeypatch):
    def missing() -> int:
        raise RuntimeError('Failure finding "libnccl.so.2"\nmore')

    fake.together = 1
    monkeypatch.setattr(fake, "get_version", missing)
    group = Mirror()
    with pytest.warns(RuntimeWarning, match='process 0, 1: Failure finding "libnccl.so.2" .NCCL=0'):
        assert nccl.connection(group, device, "") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nccl.connection(group, device, "") is None
    assert len(group.calls) == 1


# -- failures -------------------------------------------------------------------------------------


def connected_mirror(fake, device) -> nccl.NCCLCommunicator:
    fake.together = 1
    found = nccl.connection(Mirror(), device, "")
    assert found is not None
    return found


def sums(connected, device, where: str = "train.py:7") -> np.ndarray:
    call = Call("all_reduce", Op.ADD, where=where)
    return called(connected, device, call, np.ones(2, np.float32), np.zeros(2, np.float32))


def test_processes_that_make_different_calls_are_told_by_the_group(fake, device):
    def program(group: Process):
        connected = nccl.connection(group, device, "")
        data = np.ones(2 + (group.rank == 1), np.float32)
        return called(connected, device, Call("all_reduce", Op.ADD), data, data)

    for found in together(program):
        assert isinstance(found, DistributedError | threading.BrokenBarrierError), found
    found = next(one for one in together(program) if isinstance(one, DistributedError))
    assert "all_reduce add of float32 (2,) in CUDA memory" in str(found)
    assert "all_reduce add of float32 (3,) in CUDA memory" in str(found)
    assert not [call for call in fake.log if call[0] == "all_reduce"]


def test_a_call_that_the_others_do_not_come_to_ends_by_its_time(fake, device):
    connected = connected_mirror(fake, device)
    fake.hangs = True
    with Context(DISTRIBUTED_TIMEOUT=1), pytest.raises(DistributedError, match="within 1 seconds"):
        sums(connected, device)
    assert fake.log[-1] == ("abort", 0)
    with pytest.raises(DistributedError, match=r"failed before: all_reduce .* train\.py:7"):
        sums(connected, device)


def test_an_error_of_nccl_says_the_call_its_line_and_the_cause(fake, device):
    connected = connected_mirror(fake, device)
    fake.state, fake.last_error = 6, "socket closed by peer"
    told = r"NCCL failed in all_reduce add .* at train.py:7: remote process exited \(socket closed"
    with pytest.raises(DistributedError, match=told):
        sums(connected, device)
    assert fake.log[-1] == ("abort", 0)


def test_a_call_that_nccl_refuses_at_once_is_such_an_error(fake, device, monkeypatch):
    connected = connected_mirror(fake, device)

    def refused(*_):
        raise fake.NCCLError("InvalidArgument (4): invalid argument")

    monkeypatch.setattr(fake, "all_reduce", refused)
    with pytest.raises(DistributedError, match=r"NCCL failed .*InvalidArgument"):
        sums(connected, device)
    assert fake.log == [("abort", 0)]


def test_a_fault_of_a_kernel_before_it_is_the_devices_error(fake, device, monkeypatch):
    from treadle.runtime.cuda.driver import DriverError

    connected = connected_mirror(fake, device)

    def broken(event):
        raise DriverError("CUDA_ERROR_ILLEGAL_ADDRESS", "cuEventQuery")

    monkeypatch.setattr(device.context, "has_happened", broken)
    with pytest.raises(DeviceError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        sums(connected, device)
    assert fake.log[-1] == ("abort", 0)


def test_an_interrupt_ends_the_call_and_no_other_is_made(fake, device, monkeypatch):
    connected = connected_mirror(fake, device)

    def interrupted(event):
        raise KeyboardInterrupt

    monkeypatch.setattr(device.context, "has_happened", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sums(connected, device)
    assert fake.log[-1] == ("abort", 0)


def test_nccl_works_behind_what_was_on_the_devices_stream(fake, device, monkeypatch):
    connected = connected_mirror(fake, device)
    seen: list[tuple[object, ...]] = []
    context = device.context
    for name in ("record", "wait_event", "has_happened"):
        real = getattr(context, name)
        monkeypatch.setattr(
            context, name, lambda *args, n=name, r=real: (seen.append((n, *args)), r(*args))[1]
        )
    real_start = fake.group_start
    monkeypatch.setattr(fake, "group_start", lambda: (seen.append(("start",)), real_start()))
    assert sums(connected, device).tolist() == [2.0, 2.0]
    begun, own = seen[0][1], connected._stream
    assert own != device.stream
    assert [one[0] for one in seen] == ["record", "wait_event", "start", "record", "has_happened"]
    assert seen[0] == ("record", begun, device.stream)
    assert seen[1] == ("wait_event", own, begun)
    assert seen[3][2] == own


# -- tensors --------------------------------------------------------------------------------------


def on_gpu(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32), device="CUDA:PTX").realize()


@pytest.mark.parametrize("count", [10, 40_000])
def test_tensors_of_a_gpu_go_by_nccl_and_not_by_the_host(fake, mirror, count):
    total = mirror.allreduce(on_gpu(count) + 1) * 3
    assert total.tolist() == [12.0] * count
    assert mirror.allgather(on_gpu(count)).sum().item() == 2 * count
    assert [call[0] for call in fake.log] == ["all_reduce", "all_gather"]
    calls = mirror.communicator.calls
    assert [call.kind for call, given in calls if given] == ["all_gather"] * 2  # the opening
    assert [call.kind for call, given in calls if not given] == ["barrier"] * 2
    assert all("test_nccl.py:" in call.where for call, _ in calls), calls


def test_captured_steps_and_gradients_go_by_nccl(fake, mirror):
    x = on_gpu(20_000)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return (mirror.allreduce(x * 2) + 1).realize()

    for _ in range(4):
        assert step(x).sum().item() == 20_000 * 5.0
    assert [call[0] for call in fake.log] == ["all_reduce"] * 4
    weight = on_gpu(4).requires_grad_()
    mirror.allreduce(weight * weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [4.0] * 4


def test_means_of_small_gradients_are_exchanged_as_one(fake, mirror):
    weights = [on_gpu(n).requires_grad_() for n in (3, 5)]
    sum((w * w).sum() for w in weights).backward()
    mirror.average_gradients(weights)
    assert [w.grad.tolist() for w in weights] == [[2.0] * 3, [2.0] * 5]
    assert {call[0] for call in fake.log} == {"all_reduce"}


def test_memory_is_kept_while_a_call_reads_it_and_given_back_when_it_is_over(fake, mirror):
    mirror.allreduce(on_gpu(1))  # connects them
    fake.hangs = True
    x = on_gpu(40_000)
    kept = weakref.ref(x.node.arg.token.memory.buffer)
    with Context(DISTRIBUTED_TIMEOUT=60):
        total = mirror.allreduce(x)
        del x
        gc.collect()
        assert kept() is not None
        fake.hangs = False
        for place, posted in list(fake._rounds.items()):  # the other one comes
            (calls,) = posted.values()
            if place not in fake._done:
                fake._compute([calls[0]] * 2, posted, [calls] * 2)
                fake._done.add(place)
        assert total.sum().item() == 80_000.0
    del total
    gc.collect()
    assert kept() is None


def test_what_is_read_meanwhile_is_not_overwritten(fake, mirror):
    x = on_gpu(40_000)
    total = mirror.allreduce(x)
    x.assign(x * 5).realize()
    assert total.sum().item() == 80_000.0


def test_a_failure_meanwhile_is_raised_where_the_result_is_read(fake, mirror):
    mirror.allreduce(on_gpu(3)).realize()
    fake.state = 6
    total = mirror.allreduce(on_gpu(40_000))
    with pytest.raises(DistributedError, match="NCCL failed"):
        total.tolist()


@pytest.mark.parametrize("why", ["setting", "emulated", "dtype", "not installed", "alone"])
def test_the_host_exchanges_what_nccl_is_not_for(fake, mirror, why, monkeypatch):
    group = mirror
    if why == "emulated":
        monkeypatch.setattr(Device["CUDA:PTX"].runtime, "is_software", True)
    if why == "not installed":
        monkeypatch.setitem(sys.modules, "nccl.bindings", None)
        nccl.is_installed.cache_clear()
    if why == "alone":
        monkeypatch.setattr(Mirror, "size", 1)
    x = on_gpu(4)
    if why == "dtype":
        x = x.cast("int16").realize()
    with Context(NCCL=why != "setting"):
        assert group.allreduce(x).tolist() == [2] * 4
    assert not fake.log
    assert [call.kind for call, _ in group.communicator.calls] == ["all_reduce"]


# -- beside MPI -----------------------------------------------------------------------------------


@NEEDS_MPI
def test_mpi_brings_processes_together_and_apart():
    ended = run(2, "gpu_calls.py", "right", EMULATE="1")
    assert ended.status == 0, ended.text
    assert [ended.lines_of(rank)[-1] for rank in (0, 1)] == ["all right"] * 2


@NEEDS_MPI
@pytest.mark.parametrize("how", ["different", "mixed"])
def test_mpi_names_those_that_make_different_calls(how):
    ended = run(2, "gpu_calls.py", how, EMULATE="1")
    assert ended.status == 1, ended.text
    calls = {
        "different": ["(3,) in CUDA memory at", "(4,) in CUDA memory at"],
        "mixed": ["process 0: all_reduce add of float32 (3,) at", "process 1: the opening of NCCL"],
    }
    assert "processes make different calls" in ended.text
    assert all(text in ended.text for text in calls[how]), ended.text
    assert "gpu_calls.py:" in ended.text
