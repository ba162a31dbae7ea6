"""The server by which processes find each other that no launcher of MPI's has started.

    python -m treadle.distributed.rendezvous_server PORT SIZE SECONDS

Each process of a job has two connections. On its own one (`rendezvous`) it joins, and is told when
all are there. On the other one MPICH (or Intel MPI) asks what it would ask its launcher, in PMI-1,
a protocol of lines such as `cmd=put kvsname=job key=a value=b`. If a process is gone before it has
said that it leaves, the server ends the others. It ends when all have left.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

__all__ = ["main", "say"]

_JOB = f"treadle-{os.getpid()}-{time.time_ns()}"  # MPI names shared memory by it
_LOOK = 0.1  # seconds between two looks whether all have left
_LEAVING = 10.0  # seconds that the last answers may take
_FREE = 2.0  # seconds in which a port may become free


def say(lines: TextIO, text: str) -> None:
    """Write a line to a process, or to the one that keeps the list."""
    try:
        lines.write(text + "\n")
        lines.flush()
    except (OSError, ValueError):
        return  # who is gone reads nothing


@dataclass
class _Server:
    """The table that processes fill, and who is there. All is done under one lock."""

    size: int
    table: dict[str, str] = field(default_factory=dict)
    members: dict[int, tuple[TextIO, str, str]] = field(default_factory=dict)
    waiting: list[TextIO] = field(default_factory=list)
    left: set[int] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def serve(self, connection: socket.socket) -> None:
        """Answer one connection: a process's own, or its MPI's."""
        host = connection.getpeername()[0]
        lines = connection.makefile("rw", encoding="utf-8", newline="\n")
        rank, is_member = -1, False
        try:
            for line in lines:
                words = _fields(line)
                with self.changed:
                    if words.get("cmd") == "join":
                        rank, is_member = int(words["rank"]), True
                        self._join(rank, words, lines, f"{host} {words['host']}")
                    elif words.get("cmd") == "initack":
                        rank = int(words["pmiid"])
                        self._begin(lines, rank)
                    elif words.get("cmd") in ("leave", "finalize"):
                        self._leave(rank, words["cmd"], lines)
                    else:
                        self._answer(words, line, lines)
        except (OSError, ValueError, KeyError):
            pass  # not one of ours, or gone
        with self.changed:
            is_known = is_member and self.members.get(rank, (None,))[0] is lines
            if is_known and rank not in self.left:
                self.end(f"process {rank} is gone")

    def _join(self, rank: int, words: dict[str, str], lines: TextIO, host: str) -> None:
        if int(words["size"]) != self.size:
            say(lines, f"cmd=end message=process {rank} is one of {words['size']} (WORLD_SIZE), "
                 f"and process 0 one of {self.size}")  # fmt: skip
            return
        if rank in self.members:
            say(lines, f"cmd=end message=there are two processes RANK={rank}")
            return
        self.members[rank] = lines, host, words["versions"]
        self.changed.notify_all()
        if len(self.members) < self.size:
            return
        for number, (_, _, versions) in sorted(self.members.items()):
            if versions != self.members[0][2]:
                self.end(f"process {number} has {versions}, process 0 {self.members[0][2]}")
        self.table["PMI_process_mapping"] = self._machines()
        for member, _, _ in self.members.values():
            say(member, "cmd=all_here")

    def _machines(self) -> str:
        """Which processes share a machine, as PMI says it: (machine, machines, processes each)."""
        hosts = [self.members[rank][1] for rank in range(self.size)]
        numbers = {host: at for at, host in enumerate(dict.fromkeys(hosts))}
        runs: list[list[int]] = []
        for host in hosts:
            if runs and runs[-1][0] == numbers[host]:
                runs[-1][1] += 1
            else:
                runs.append([numbers[host], 1])
        return "(vector," + ",".join(f"({host},1,{count})" for host, count in runs) + ")"

    def _begin(self, lines: TextIO, rank: int) -> None:
        say(lines, "cmd=initack rc=0")
        for name, value in (("size", self.size), ("rank", rank), ("debug", 0)):
            say(lines, f"cmd=set {name}={value}")

    def _leave(self, rank: int, how: str, lines: TextIO) -> None:
        self.left.add(rank)
        if how == "finalize":
            say(lines, "cmd=finalize_ack rc=0")

    def _answer(self, words: dict[str, str], line: str, lines: TextIO) -> None:
        """What MPI asks."""
        command = words["cmd"]
        if command == "put":
            self.table[words["key"]] = line.partition(" value=")[2].rstrip("\n")
            say(lines, "cmd=put_result rc=0 msg=success")
        elif command == "get":
            value = self.table.get(words["key"])
            found = "rc=-1 msg=key_not_found value=unknown"
            say(lines, "cmd=get_result " + (found if value is None else f"rc=0 value={value}"))
        elif command == "barrier_in":
            self.waiting.append(lines)
            if len(self.waiting) == self.size:
                for member in self.waiting:
                    say(member, "cmd=barrier_out rc=0")
                self.waiting.clear()
        elif command == "abort":
            self.end("a process ends the job")
        else:
            say(lines, _ANSWERS[command].format(size=self.size))

    def end(self, message: str) -> None:
        """Tell all, and end."""
        for member, _, _ in self.members.values():
            say(member, f"cmd=end message={message}")
        os._exit(1)


_ANSWERS = {
    "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "get_maxes": "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
    "get_appnum": "cmd=appnum rc=0 appnum=0",
    "get_my_kvsname": f"cmd=my_kvsname rc=0 kvsname={_JOB}",
    "get_universe_size": "cmd=universe_size rc=0 size={size}",
}


def _fields(line: str) -> dict[str, str]:
    """cmd=put key=a value=b c -> {"cmd": "put", "key": "a", "value": "b"}; versions last."""
    head, mark, versions = line.rstrip("\n").partition(" versions=")
    found = dict(word.split("=", 1) for word in head.split() if "=" in word)
    return {**found, "versions": versions} if mark else found


def main(arguments: Sequence[str]) -> None:
    """Serve `size` processes at a port until all have left."""
    port, size, seconds = int(arguments[0]), int(arguments[1]), float(arguments[2])
    server, listening = _Server(size), _listening(port)

    def accept() -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=server.serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with server.changed:
        all_here = lambda: len(server.members) == size
        if not server.changed.wait_for(all_here, seconds):
            missing = sorted({*range(size)} - {*server.members})
            names = ", ".join(map(str, missing[:8])) + (" and more" if len(missing) > 8 else "")
            server.end(f"{len(missing)} of {size} processes did not come within {seconds:.0f} "
                       f"seconds (DISTRIBUTED_TIMEOUT): RANK {names}")  # fmt: skip
    while len(server.left) < size:
        time.sleep(_LOOK)
    with contextlib.suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)  # the next job may have the port
    listening.close()
    time.sleep(_LEAVING)  # MPI asks until it has ended


def _listening(port: int) -> socket.socket:
    """A socket at a port, which another job may be about to leave. Raises OSError."""
    with_both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if with_both else socket.AF_INET
    deadline = time.monotonic() + _FREE
    while True:
        try:
            return socket.create_server(
                ("", port), family=family, dualstack_ipv6=with_both, backlog=1024
            )
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK)


if __name__ == "__main__":
    main(sys.argv[1:])
