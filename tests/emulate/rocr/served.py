"""Runs a program of AMD's user space with an emulated GPU in place of the kernel driver's.

    found = Served("gfx1030", execute, folder).run(["rocminfo"], environment)

The program is another process. `shim.c`, preloaded, sends its calls of device files here. Memory
that the emulated driver gives out is one file, which the program maps; memory of its own that it
gives to the GPU is moved into that file. Doorbells are words of such memory: they are looked at
between two steps of the engines, and a change is a ring.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import select
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from treadle.emulate.kfd import EmulatedKFD, tables
from treadle.emulate.kfd.dispatch import Execute
from treadle.emulate.kfd.events import Wait
from treadle.emulate.machine.memory import HostPages, MemoryObject
from treadle.emulate.machine.platform import Doorbells, EmulatedPlatform, OpenFile, refusal
from treadle.runtime.hardware import host_memory

_REQUEST, _REPLY, _PIECE = struct.Struct("<IIQQQ"), struct.Struct("<iIQ"), struct.Struct("<4Q")
_OPEN, _CLOSE, _IOCTL, _MAP = 1, 2, 3, 4
_SILENT = (1 << 64) - 1  # what a doorbell holds that nobody has rung
_PAUSE, _MOST_IDLE = 0.0005, 100_000  # in seconds, and how many of them are too many
_STEPS = 64  # of the engines, between two looks at the program's calls
_CREATE_QUEUE = 2  # the lowest byte of a call's number
_NEVER = 0xFFFFFFFF  # a timeout of wait_events
_MAPS = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ([r-])([w-])([x-]). ([0-9a-f]+) \S+ (\d+)")


class Unshared(Exception):
    """Pages of the program that have to be moved into the shared file first."""

    def __init__(self, pieces: list[tuple[int, int, int, int]]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


class _Vector(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


class OtherMemory:
    """The memory of the process `pid`."""

    def __init__(self) -> None:
        self.pid = 0
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._shared: list[MemoryObject] = []  # the program may use them as long as it lives
        self._reserved: list[tuple[int, int]] = []

    def _move(self, name: str, local: ctypes.Array[ctypes.c_char], address: int) -> None:
        nbytes = len(local)
        here, there = _Vector(ctypes.addressof(local), nbytes), _Vector(address, nbytes)
        call = getattr(self._libc, name)
        if call(self.pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) != nbytes:
            raise refusal(errno.EFAULT, f"{name} of {nbytes} bytes at {address:#x}")

    def read(self, address: int, nbytes: int) -> bytes:
        local = (ctypes.c_char * nbytes)()
        self._move("process_vm_readv", local, address)
        return bytes(local)

    def write(self, address: int, data: bytes) -> None:
        self._move("process_vm_writev", (ctypes.c_char * len(data)).from_buffer_copy(data), address)

    def pages(self, address: int, nbytes: int) -> HostPages:
        """Raises Unshared where they are not in the shared file yet."""
        found = self._parts(address, nbytes)
        if missing := [part for part in found if part[2] is None]:
            raise Unshared([(at, n, self._fresh(n), allowed) for at, n, _, allowed in missing])
        host = host_memory.reserve(nbytes, host_memory.PAGE)
        self._reserved.append((host, nbytes))
        for at, n, offset, _ in found:
            assert offset is not None
            host_memory.map_file(self._shared[0].fd, n, offset, host + at - address)
        return HostPages(host, nbytes)

    def _fresh(self, nbytes: int) -> int:
        self._shared.append(MemoryObject(nbytes))
        return self._shared[-1].offset

    def _parts(self, address: int, nbytes: int) -> list[tuple[int, int, int | None, int]]:
        """Start, size, place in the shared file and permissions of what is mapped there."""
        end, at = address + nbytes, address
        inode = os.fstat(MemoryObject(host_memory.PAGE).fd).st_ino
        found = []
        for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines():
            if not (shown := re.match(_MAPS, line)):
                continue
            low, high, *letters, offset, node = shown.groups()
            start, stop = max(int(low, 16), at), min(int(high, 16), end)
            if start >= stop:
                continue
            if start > at or letters[0] == "-":
                break
            place = int(offset, 16) + start - int(low, 16) if int(node) == inode else None
            protection = sum(1 << i for i, letter in enumerate(letters) if letter != "-")
            found.append((start, stop - start, place, protection))
            at = stop
        if at < end:
            raise refusal(errno.EFAULT, f"{nbytes} bytes at {address:#x}")
        return found

    def close(self) -> None:
        for start, nbytes in self._reserved:
            host_memory.release(start, nbytes)


@dataclass
class _Waiting:
    """A call of wait_events that is not answered yet."""

    connection: socket.socket
    argument: bytes
    wait: Wait
    end: float


@dataclass
class _Bells:
    """Doorbells that the program has mapped, and what they held at the last look."""

    doorbells: Doorbells
    known: list[int] = field(default_factory=list)

    def values(self) -> list[int]:
        memory = self.doorbells.memory
        return host_memory.view(memory.host, memory.nbytes).cast("Q").tolist()


class Served:
    """An emulated machine with one GPU, which one program uses."""

    def __init__(self, arch: str, execute: Execute, folder: Path, seed: int = 0) -> None:
        self._memory = OtherMemory()
        self.platform = EmulatedPlatform(seed, self._memory, sees_host=False)
        self.driver = EmulatedKFD(self.platform, [arch], execute)
        self._root, self._name = folder / "root", folder / "socket"
        self._file = MemoryObject(host_memory.PAGE)
        self._files: dict[int, int] = {}  # the program's numbers of open files, and ours
        self._bells: dict[int, _Bells] = {}
        self._waiting: list[_Waiting] = []
        self.calls: list[str] = []  # the names of calls that were refused
        self._show("/sys", self.platform.read_text)
        self._show("/dev", lambda path: "")

    def _show(self, folder: str, text: Callable[[str], str]) -> None:
        """Makes files of what the platform has in a folder."""
        try:
            names = self.platform.names(folder)
        except OSError:
            target = self._root / folder.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text(folder))
            return
        for name in names:
            self._show(f"{folder}/{name}", text)

    def run(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Runs the program to its end, and gives what it wrote.

        Raises TimeoutError where nothing happens any more, and the program does not end.
        """
        output = self._root.parent / "output"
        with socket.socket(socket.AF_UNIX) as listener, output.open("w+") as written:
            listener.bind(str(self._name))
            listener.listen(64)
            given = {
                **environment, "TREADLE_SOCKET": str(self._name), "TREADLE_ROOT": str(self._root),
                "TREADLE_MEMORY": str(self._file.fd),
            }  # fmt: skip
            with subprocess.Popen(
                command, env=given, pass_fds=[self._file.fd], stdout=written, stderr=written
            ) as program:
                self._memory.pid = program.pid
                try:
                    self._serve(listener, program)
                finally:
                    program.kill()
                    for one in self._waiting:
                        one.connection.close()
        return subprocess.CompletedProcess(command, program.returncode, output.read_text(), "")

    def _serve(self, listener: socket.socket, program: subprocess.Popen[bytes]) -> None:
        idle = 0
        poller = select.poll()  # takes more than the 1,024 open files of select()
        poller.register(listener, select.POLLIN)
        while program.poll() is None:
            called = poller.poll(0 if idle == 0 else 1000 * _PAUSE)
            if called:
                self._answer(listener.accept()[0])
            rang, went_on = self._listen(), self._step()
            self._look_again()
            idle = 0 if called or rang or went_on else idle + 1
            if idle > _MOST_IDLE:
                raise TimeoutError(f"nothing happens any more; {self.platform.explain()}")

    def _step(self) -> bool:
        for done in range(_STEPS):
            if not self.platform.scheduler.step():
                return done > 0
        return True

    # -- calls ------------------------------------------------------------------------------------

    def _answer(self, connection: socket.socket) -> None:
        kind, nbytes, file, number, offset = _REQUEST.unpack(_received(connection, _REQUEST.size))
        data = _received(connection, nbytes)
        try:
            if kind == _IOCTL and _is_call(number, "wait_events"):
                self._wait(connection, data)
                return
            result, data = self._do(kind, file, number, offset, data)
        except Unshared as unshared:
            pieces = b"".join(_PIECE.pack(*piece) for piece in unshared.pieces)
            _send(connection, _REPLY.pack(0, len(unshared.pieces), 0) + pieces)
        except OSError as error:
            self.calls.append(f"{kind} {number:#x} {data.hex()}: {error}")
            _send(connection, _REPLY.pack(error.errno or errno.EINVAL, 0, 0))
        else:
            _send(connection, _REPLY.pack(0, 0, result) + data)

    def _do(self, kind: int, file: int, number: int, offset: int, data: bytes) -> tuple[int, bytes]:
        platform = self.platform
        if kind == _OPEN:
            self._files[file] = platform.open(data.decode())
            return 0, data
        if kind == _CLOSE:
            platform.close(self._files.pop(file))
            return 0, b""
        if kind == _MAP:
            return self._map(platform.file(self._files[file]), number, offset), b""
        argument = bytearray(data)
        if _is_call(number, "acquire_vm"):  # it names a file
            layout = tables.ioctls()[number].layout
            layout.put(argument, "drm_fd", self._files[layout.get(argument, "drm_fd")])
        platform.ioctl(self._files[file], number, argument)
        if number & 0xFF == _CREATE_QUEUE:
            layout = tables.layout("kfd_ioctl_create_queue_args")
            self._silence(layout.get(argument, "doorbell_offset"))
        return 0, bytes(argument)

    def _silence(self, offset: int) -> None:
        """Makes a new queue's doorbell one that nobody has rung: queues have it in turn."""
        for bells in self._bells.values():
            memory = bells.doorbells.memory
            place = offset % memory.nbytes
            ctypes.memset(memory.host + place, 0xFF, 8)
            bells.known[place // 8] = _SILENT

    def _map(self, file: OpenFile, nbytes: int, offset: int) -> int:
        found = file.map(nbytes, offset)
        if not isinstance(found, Doorbells):
            return found.offset
        if found.memory.offset not in self._bells:
            ctypes.memset(found.memory.host, 0xFF, found.memory.nbytes)
            self._bells[found.memory.offset] = bells = _Bells(found)
            bells.known = bells.values()
        return found.memory.offset

    def _listen(self) -> bool:
        """Doorbells that have other values than at the last look were rung. Whether any was."""
        rang = False
        for bells in self._bells.values():
            values = bells.values()
            for number, (before, value) in enumerate(zip(bells.known, values, strict=True)):
                if before != value:
                    bells.doorbells.rung(8 * number, value)
                    rang = True
            bells.known = values
        return rang

    # -- waits ------------------------------------------------------------------------------------

    def _wait(self, connection: socket.socket, data: bytes) -> None:
        timeout = tables.layout("kfd_ioctl_wait_events_args").get(data, "timeout")
        end = float("inf") if timeout == _NEVER else time.monotonic() + timeout / 1000
        wait = self.driver.begin_wait(bytearray(data))
        self._waiting.append(_Waiting(connection, data, wait, end))

    def _look_again(self) -> None:
        """Answers waits whose events have come, or whose time is over."""
        for one in self._waiting[:]:
            if one.wait.is_over or time.monotonic() > one.end:
                self._waiting.remove(one)
                argument = bytearray(one.argument)
                self.driver.end_wait(one.wait, argument)
                _send(one.connection, _REPLY.pack(0, 0, 0) + argument)


def _is_call(number: int, name: str) -> bool:
    found = tables.ioctls().get(number)
    return found is not None and found.name == name


def _send(connection: socket.socket, data: bytes) -> None:
    """The answer to a call; the program may be gone."""
    with connection, contextlib.suppress(BrokenPipeError):
        connection.sendall(data)


def _received(connection: socket.socket, nbytes: int) -> bytes:
    data = b""
    while len(data) < nbytes:
        more = connection.recv(nbytes - len(data))
        if not more:
            raise EOFError("the program is gone in the middle of a call")
        data += more
    return data
