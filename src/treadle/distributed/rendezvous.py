"""How processes find each other that were started one by one, by torchrun or Kubernetes say.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=node1 MASTER_PORT=29500 python train.py
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=node1 MASTER_PORT=29500 python train.py

Process 0 starts a server (`rendezvous_server`). Each process joins it, and is told when all are
there. Then MPICH (or Intel MPI) asks the same server what it would ask its launcher.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from ..config import settings
from ..errors import DistributedError
from .rendezvous_server import say

__all__ = ["Membership", "join", "place_of"]

_SERVER = "treadle.distributed.rendezvous_server"
_RETRY = 0.1  # seconds between two attempts to reach the server
_ANSWER = 10.0  # seconds that the server has to answer


@dataclass(frozen=True)
class Membership:
    """Process `rank` of `size`, which meet at a port of a host."""

    rank: int
    size: int
    host: str
    port: int


def place_of(environment: dict[str, str]) -> Membership | None:
    """What the variables say, if they speak of several processes.

    torchrun keeps MASTER_PORT for itself, and says so: then it is the next one. Raises
    DistributedError for variables that are no numbers, or missing.
    """
    if environment.get("WORLD_SIZE", "1") in ("", "1"):
        return None
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if not environment.get(name)]
    if len(missing) == len(names) - 1:  # WORLD_SIZE alone may be another launcher's
        return None
    if missing:
        raise DistributedError(
            f"[distributed] WORLD_SIZE={environment['WORLD_SIZE']}, and {missing[0]} is not set: "
            f"a process needs {', '.join(names)}"
        )
    try:
        rank, size, port = (int(environment[name]) for name in ("RANK", "WORLD_SIZE", names[3]))
    except ValueError as error:
        raise DistributedError(
            f"[distributed] RANK, WORLD_SIZE and MASTER_PORT have to be numbers: {error}"
        ) from None
    if not 0 <= rank < size:
        raise DistributedError(f"[distributed] RANK={rank} is none of WORLD_SIZE={size} processes")
    port += environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return Membership(rank, size, environment["MASTER_ADDR"], port)


def join(place: Membership, versions: str) -> Callable[[], None]:
    """Wait until all processes are there, and prepare MPI; returns what is called before the end.

    Raises DistributedError where they do not come within DISTRIBUTED_TIMEOUT seconds, one comes
    twice, or their `versions` differ.
    """
    server = _serve_aside(place) if place.rank == 0 else None
    deadline = time.monotonic() + settings.DISTRIBUTED_TIMEOUT
    connection = _connected(place, deadline, server)
    lines = connection.makefile("rw", encoding="utf-8", newline="\n")
    own = socket.gethostname()  # hosts may share an address
    say(lines, f"cmd=join rank={place.rank} size={place.size} host={own} versions={versions}")
    answer = lines.readline().rstrip("\n")
    if answer != "cmd=all_here":
        reason = answer.partition("message=")[2] or "the process that keeps the list is gone"
        raise DistributedError(f"[distributed] {reason}")
    connection.settimeout(None)
    host = connection.getpeername()[0]
    address = f"[{host}]" if ":" in host else host
    os.environ |= {"PMI_PORT": f"{address}:{place.port}", "PMI_ID": str(place.rank)}
    is_leaving = threading.Event()
    watch = threading.Thread(target=_watch, args=(lines, is_leaving), daemon=True)
    watch.start()

    def leave() -> None:
        is_leaving.set()
        say(lines, "cmd=leave")

    return leave


def _serve_aside(place: Membership) -> subprocess.Popen[bytes]:
    """The server lives longer than Python does in process 0: MPI's end comes after that."""
    words = [str(place.port), str(place.size), str(settings.DISTRIBUTED_TIMEOUT)]
    return subprocess.Popen([sys.executable, "-m", _SERVER, *words], start_new_session=True)


def _connected(
    place: Membership, deadline: float, server: subprocess.Popen[bytes] | None
) -> socket.socket:
    while True:
        try:
            found = socket.create_connection((place.host, place.port), timeout=_ANSWER)
        except OSError as error:
            if server is not None and server.poll() is not None:
                raise DistributedError(
                    f"[distributed] process 0 cannot keep the list of processes at port "
                    f"{place.port}: another program has it, or its own has failed"
                ) from error
            if time.monotonic() > deadline:
                raise DistributedError(
                    f"[distributed] process {place.rank} cannot reach process 0 at "
                    f"{place.host}:{place.port} (MASTER_ADDR, MASTER_PORT): {error}"
                ) from error
            time.sleep(_RETRY)
        else:
            found.settimeout(settings.DISTRIBUTED_TIMEOUT + _ANSWER)
            return found


def _watch(lines: TextIO, is_leaving: threading.Event) -> None:
    """End this process when the server says that another one is gone, or is gone itself."""
    try:
        told = lines.readline()
    except (OSError, ValueError):
        told = ""
    if is_leaving.is_set():
        return
    reason = told.partition("message=")[2].rstrip("\n") or "the process that keeps the list is gone"
    os.write(2, f"[distributed] {reason}: this process ends\n".encode())
    os._exit(1)
