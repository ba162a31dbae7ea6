"""Mesa's compiler in a process beside this one: an assertion of Mesa's ends that, and not this.

    compile_beside("a630", text)   ->  an object (see ir3_object)

One process serves all threads, one after the other. It starts at the first text, which takes
0.3 s, and again after it has ended. A program that embeds Python has none: Mesa compiles in it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import subprocess
import threading

from treadle.child import Child, available, parent
from treadle.compile.mesa_nir import compile_here
from treadle.errors import InternalError, TreadleError
from treadle.forks import fork_safe

__all__ = ["compile_beside", "serve"]

_SECONDS = 300.0  # that a text may take
_LAST_SECONDS = 5.0  # in which a process that an assertion ends writes what it leaves
_MODULE = __name__
_lock = fork_safe(threading.Lock())
_running: list[tuple[str, Child]] = []  # none or one, and the library that it was started for


def compile_beside(chip: str, text: str) -> bytes:
    """The object of a text. Raises InternalError for one that Mesa rejects, or ends over."""
    with _lock:
        if not available():
            return compile_here(chip, text)
        child = _started()
        try:
            child.send((chip, text))
            found = child.receive(_SECONDS)
        except BaseException as error:  # Ctrl-C, too: what was not received would come later
            status = _end(isinstance(error, EOFError))
            if not isinstance(error, (EOFError, OSError, pickle.UnpicklingError)):
                raise
            why = f"took more than {_SECONDS:g} s" if child.expired else _ended(status)
            raise InternalError(f"the process of Mesa's compiler {why}") from error
    if isinstance(found, str):
        raise InternalError(found)
    return found


def _ended(status: int) -> str:
    if status == -signal.SIGABRT:
        return f"ended with signal {-status}, as an assertion of Mesa's ends it"
    return f"ended with signal {-status}" if status < 0 else f"ended with status {status}"


def _started() -> Child:
    """The process, if it runs still, is this process's and has the same library; else a new one."""
    library = os.environ.get("MESA_LIBRARY", "")
    if _running:
        of, child = _running[0]
        if child.started_by != os.getpid():
            _running.clear()
            child.forget()
        elif of != library or child.process.poll() is not None:
            _end()
    if not _running:
        try:
            _running.append((library, Child(_MODULE)))
        except OSError as error:
            raise InternalError(f"no process for Mesa's compiler could start: {error}") from error
    return _running[0][1]


def _end(is_ending: bool = False) -> int:
    """Ends the process, unless it is about to end by itself; what it ended with."""
    _, child = _running.pop()
    if is_ending:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(_LAST_SECONDS)
    status = child.process.poll()
    if status is None:
        status = child.kill()
    child.close()
    return status


@atexit.register
def _end_last() -> None:
    if _running and _running[0][1].started_by == os.getpid():
        _end()


# -- in the process -------------------------------------------------------------------------------


def serve() -> None:
    """Compiles what comes, until nobody sends any more."""
    with parent() as above:
        while True:
            try:
                chip, text = above.receive()
            except EOFError:
                return
            try:
                above.send(compile_here(chip, text))
            except TreadleError as error:
                above.send(str(error))
