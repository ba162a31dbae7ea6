"""The part that looks at NVIDIA's kernel driver itself: what a runtime without libcuda would meet.

Which files there are and which of them open, the driver's version, the classes of the GPU (the
"class list", by which such a runtime chooses its channels), and with `--record` what libcuda asks
the driver for, step by step (`driver_calls`). Nothing is reset, and no setting is changed.

Sources of the structures and numbers: nv-ioctl-numbers.h, nvos.h, cl0080.h and ctrl0080gpu.h of
NVIDIA's open kernel modules, 580.142.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import glob
import os
import struct
import sys
import termios
from collections.abc import Iterator

from .driver_calls import Recorder
from .findings import Findings, Skipped
from .interpose import loaded_at

__all__ = ["caller_of_ioctl", "run"]

_FREE, _CONTROL, _ALLOC, _REGISTER_FD = 0x29, 0x2A, 0x2B, 201
_ROOT, _DEVICE = 0x41, 0x80  # NV01_ROOT_CLIENT, NV01_DEVICE_0
_CLASS_LIST = 0x800292  # NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2
_CLASSES = {580: 200, 0: 100}  # how many it has room for, by the driver's first number
_VERSION = "/proc/driver/nvidia/version"


def run(findings: Findings, record: str = "") -> None:
    """All of it; `record`: the name of the file beside which the streams are written."""
    findings.check("an ioctl of this process is recorded", _recorder_works)
    findings.check("files of the driver", lambda: _files(findings))
    findings.check("classes of the GPU", lambda: _class_list(findings))
    if record:
        path = os.path.splitext(record)[0] + ".streams.json.gz"
        findings.check("what libcuda asks for", lambda: _streams(findings, path), patience=60)


def caller_of_ioctl() -> str:
    """Where the module `fcntl` is: in a library of its own, in Python's, or in the program."""
    libraries = (name for name in ("fcntl.", "libpython") if loaded_at(name) is not None)
    return next(libraries, os.path.basename(os.path.realpath(sys.executable)))


def _recorder_works() -> None:
    recorder, (read, write) = Recorder(), os.pipe()
    try:
        os.write(write, b"abc")
        waiting = bytearray(4)
        with recorder.listening(caller_of_ioctl()):
            fcntl.ioctl(read, termios.FIONREAD, waiting)
    except LookupError as error:
        raise Skipped(str(error)) from error
    finally:
        os.close(read)
        os.close(write)
    assert struct.unpack("<i", waiting) == (3,), waiting
    assert [call.request for call in recorder.calls] == [termios.FIONREAD], recorder.calls


# -- files ------------------------------------------------------------------------------------


def _files(findings: Findings) -> None:
    paths = [path for path in sorted(glob.glob("/dev/nvidia*")) if not os.path.isdir(path)]
    if not paths:
        raise Skipped("there are no files /dev/nvidia*")
    findings.note("files", {path: _opens(path) for path in paths})
    findings.note("version", _version())


def _opens(path: str) -> str:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "opens"


def _version() -> str:
    with contextlib.suppress(OSError), open(_VERSION, encoding="utf-8") as file:
        return file.readline().strip()
    return "unknown"


# -- classes ----------------------------------------------------------------------------------


class _Client:
    """A client of the resource manager; what it has made goes with it."""

    def __init__(self, control: int) -> None:
        self._fd = control
        self.handle = 0
        self.handle = self.alloc(0, _ROOT, 0, b"")[0]

    def alloc(self, parent: int, kind: int, handle: int, params: bytes) -> tuple[int, bytes]:
        """A new object (NVOS21): its handle, and what became of its parameters."""
        buffer = ctypes.create_string_buffer(params, max(len(params), 1))
        address = ctypes.addressof(buffer) if params else 0
        given = struct.pack("<IIIIQII", self.handle, parent, handle, kind, address, len(params), 0)
        after = struct.unpack("<IIIIQII", _ioctl(self._fd, _ALLOC, given))
        _require(after[-1], f"RM_ALLOC of class {kind:#x}")
        return after[2], buffer.raw[: len(params)]

    def control(self, handle: int, command: int, params: bytes) -> bytes:
        """A command to an object (NVOS54): what became of its parameters."""
        buffer = ctypes.create_string_buffer(params, len(params))
        given = struct.pack(
            "<IIIIQII", self.handle, handle, command, 0, ctypes.addressof(buffer), len(params), 0
        )
        after = struct.unpack("<IIIIQII", _ioctl(self._fd, _CONTROL, given))
        _require(after[-1], f"RM_CONTROL {command:#x}")
        return buffer.raw

    def close(self) -> None:
        _ioctl(self._fd, _FREE, struct.pack("<IIII", self.handle, 0, self.handle, 0))


def _require(status: int, what: str) -> None:
    if status:
        raise OSError(f"{what}: status {status:#x} of the resource manager")


def _ioctl(fd: int, number: int, structure: bytes) -> bytes:
    """One call whose request names direction, size, 'F' and a number, as _IOWR does."""
    buffer = bytearray(structure)
    fcntl.ioctl(fd, 3 << 30 | len(buffer) << 16 | ord("F") << 8 | number, buffer)
    return bytes(buffer)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _class_list(findings: Findings) -> None:
    gpus = sorted(glob.glob("/dev/nvidia[0-9]*"))
    if not gpus or not os.path.exists("/dev/nvidiactl"):
        raise Skipped("there is no /dev/nvidiactl, or no GPU beside it")
    with _opened("/dev/nvidiactl") as control, _opened(gpus[0]) as gpu:
        _ioctl(gpu, _REGISTER_FD, struct.pack("<i", control))
        client = _Client(control)
        try:
            classes = _classes(client)
        finally:
            client.close()
    findings.note("classes", [f"{number:#06x}" for number in classes])
    assert classes, "the list is empty"


def _classes(client: _Client) -> list[int]:
    # device, client to share with, two targets, flags, -, three sizes of its addresses, a mode, -
    params = struct.pack("<IIIIIIQQQII", 0, client.handle, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    device, _ = client.alloc(client.handle, _DEVICE, 0, params)
    first = _version().replace("  ", " ")
    major = next((int(word.split(".")[0]) for word in first.split() if word[:1].isdigit()), 0)
    room = _CLASSES[580] if major >= 580 else _CLASSES[0]
    after = client.control(device, _CLASS_LIST, struct.pack(f"<{room + 1}I", *[0] * (room + 1)))
    count, *found = struct.unpack(f"<{room + 1}I", after)
    return sorted(found[:count])


# -- libcuda ----------------------------------------------------------------------------------


def _streams(findings: Findings, path: str) -> None:
    if findings.emulated:
        raise Skipped("the emulated GPU has no libcuda")
    ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    recorder = Recorder()
    with recorder.listening("libcuda.so"):
        _work(recorder)
    recorder.write(path)
    findings.note("streams", {
        "file": path, "ioctls": len(recorder.calls), "channels": len(recorder.channels),
        "submissions": len(recorder.submissions),
        "unread": sum(one.words is None for one in recorder.submissions),
    })  # fmt: skip
    print(f"{path}: {len(recorder.calls)} ioctls", file=sys.stderr)
    assert recorder.calls, "libcuda made no ioctl by way of its table"


def _work(recorder: Recorder) -> None:
    """What a runtime has to be able to do, one step after the other."""
    from ... import Device, Tensor, TinyJit

    device = Device["CUDA"]
    recorder.mark("open")
    x = Tensor(list(range(1024)), device="CUDA").realize()
    recorder.mark("copy to the device")
    y = (x + 1).realize()
    device.synchronize()
    recorder.mark("a launch")
    assert y.tolist()[-1] == 1024
    recorder.mark("copy to the host")
    big = Tensor.zeros(1 << 22, device="CUDA").contiguous().realize()
    (big + 1).realize()
    device.synchronize()
    recorder.mark("more memory")

    @TinyJit
    def step(a: Tensor) -> Tensor:
        return ((a * 2).contiguous() + 1).realize()

    for _ in range(4):
        step(x).tolist()
    recorder.mark("a graph")
