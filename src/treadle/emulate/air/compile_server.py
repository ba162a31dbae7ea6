"""One process of clang that compiles several texts, one behind the other.

    server = CompileServer(["clang", "-cc1", ...])
    server.compile(b"kernel void f(...) ...")      ->  IR, as text; None: ask a process of its own

To start clang takes ten times what a small text takes. So it is given several inputs at once: pipes
that are still empty. It waits at each for a text that ends, and prints its IR. Nothing tells where
the IR of a text ends but the IR itself: its last line is the last of the numbered metadata. What
clang finds wrong with a text it says in a process of its own, whose words are about it alone.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import threading
import time
import weakref
from typing import TYPE_CHECKING

from treadle.forks import fork_safe

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CompileServer"]

_TEXTS = 32  # that one process compiles
_TIMEOUT_SECONDS = 300
_CHUNK = 1 << 16
_LAST = re.compile(rb"^!(\d+) = [^\n]*\n\Z", re.MULTILINE)
_MENTIONED = re.compile(rb"!(\d+)")


class _Process:
    """A clang, with a pipe for each text that it still takes. Raises OSError, ValueError."""

    def __init__(self, command: Sequence[str], descriptors: Sequence[int]) -> None:
        self._owner = os.getpid()
        pipes: list[tuple[int, int]] = []
        try:
            pipes += (os.pipe() for _ in range(_TEXTS))
            readers = [reader for reader, _ in pipes]
            # Clang knows files by their numbers, and reads the same one once.
            if len({os.fstat(reader)[1:3] for reader in readers}) < _TEXTS:
                raise OSError("this system does not tell its pipes apart")
            self._process = subprocess.Popen(
                [*command, *(f"/dev/fd/{reader}" for reader in readers)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                pass_fds=[*readers, *descriptors], bufsize=0,
            )  # fmt: skip
        except BaseException:
            for _, writer in pipes:
                os.close(writer)
            raise
        finally:
            for reader, _ in pipes:
                os.close(reader)
        self._writers = [writer for _, writer in reversed(pipes)]  # the last one is the next
        for writer in self._writers:
            os.set_blocking(writer, False)
        self.end = weakref.finalize(self, _end, self._process, self._writers, self._owner)

    @property
    def takes_more(self) -> bool:
        """Whether it can be given another text: a fork has its parent's process, and leaves it."""
        return bool(self._writers) and self._owner == os.getpid()

    def compile(self, text: bytes) -> bytes | None:
        """IR; None where clang says anything, ends or hangs, and is of no use any more."""
        writer, left, found = self._writers.pop(), memoryview(text), b""
        process, deadline = self._process, time.monotonic() + _TIMEOUT_SECONDS
        assert process.stdout is not None
        assert process.stderr is not None
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            ready.register(process.stderr, selectors.EVENT_READ)
            ready.register(writer, selectors.EVENT_WRITE)
            try:
                while (seconds := deadline - time.monotonic()) > 0:
                    for key, _ in ready.select(seconds):
                        if key.fileobj is process.stderr:
                            return None
                        if key.fileobj == writer:
                            left = left[os.write(writer, left) :]
                            if not left:
                                ready.unregister(writer)
                                os.close(writer)
                                writer = -1
                            continue
                        more = process.stdout.read(_CHUNK)
                        if not more:
                            return None
                        found += more
                        if writer < 0 and _is_whole(found):
                            return found
            except BrokenPipeError:
                return None
            finally:
                if writer >= 0:
                    os.close(writer)
        return None


def _end(process: subprocess.Popen[bytes], writers: list[int], owner: int) -> None:
    """Ends a process that this one started, and lets go of its pipes."""
    while writers:
        os.close(writers.pop())
    for file in (process.stdout, process.stderr):
        if file is not None:
            file.close()
    if owner == os.getpid():
        process.kill()
        process.wait()
    else:
        process.returncode = 0  # whoever started it waits for it


def _is_whole(ir: bytes) -> bool:
    """Whether it is all of a module: it ends with the last of the metadata that it mentions.

    Numbers are given in the order of the lines, so another node would be mentioned before it.
    """
    last = _LAST.search(ir, max(0, ir.rfind(b"\n", 0, len(ir) - 1)))
    return last is not None and int(last[1]) == max(map(int, _MENTIONED.findall(ir)))


class CompileServer:
    """Compiles with as few processes as there can be. `descriptors` are files that they read."""

    def __init__(self, command: Sequence[str], descriptors: Sequence[int] = ()) -> None:
        self._command, self._descriptors = command, descriptors
        self._lock = fork_safe(threading.Lock())
        self._process: _Process | None = None
        _servers.add(self)

    def compile(self, text: bytes) -> bytes | None:
        """The IR of a text. None where a process of its own has to be asked for it."""
        with self._lock:
            made = None
            try:
                if self._process is None or not self._process.takes_more:
                    self.close()
                    self._process = _Process(self._command, self._descriptors)
                made = self._process.compile(text)
            except (OSError, ValueError):
                return None
            finally:
                if made is None:
                    self.close()  # whatever it prints from now on is of no text
            return made

    def close(self) -> None:
        """Ends the process. There is another one for the next text."""
        if self._process is not None:
            self._process.end()
            self._process = None


_servers: weakref.WeakSet[CompileServer] = weakref.WeakSet()


def _in_child() -> None:
    """A fork lets go of its parent's pipes: else its parent's texts would have no end."""
    for server in list(_servers):
        server.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
