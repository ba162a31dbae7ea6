"""The machines that a job runs on: which they are, and whether they can run it.

    read_hosts(Path("hosts"), 12)      {"node1": 8, "node2": 4}, from the lines node1:8 and node2
    check_hosts(["node1", "node2"], ssh)     raises DistributedError that names the host and why

A launcher says of a host that does not answer what its own parts see of it, and of versions that
differ nothing. So each host is asked before a job begins, by the program that reaches it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import DistributedError

__all__ = ["SSH", "check_hosts", "read_hosts"]

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
TIME = 60.0  # seconds that a host may take to answer, with the start of Python
AT_ONCE = 32  # hosts that are asked at a time
_VERSIONS = "treadle.distributed.versions"


def read_hosts(path: Path, count: int) -> dict[str, int]:
    """How many of `count` processes each host of a file runs, in the file's order.

    A line is a host, with a number of processes or without one: node1:8. Hosts without one share
    what is left. "#" begins a comment. Raises DistributedError for a file that cannot be read, a
    line that is none of these, a host that comes twice, or numbers that do not hold `count`.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DistributedError(
            f"[run] the file {path} with the names of hosts cannot be read: {error}"
        ) from error
    room: dict[str, int | None] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        host, room_there = _host(words, f"{path}:{number}")
        if host in room:
            raise DistributedError(f"[run] {path}:{number}: the host {host} comes twice")
        room[host] = room_there
    if not room:
        raise DistributedError(f"[run] {path} names no host")
    return _shared_out(room, count, path)


def _host(words: Sequence[str], where: str) -> tuple[str, int | None]:
    """A host, and how many processes it has room for: node1, node1:8, or node1 slots=8."""
    host, colon, number = words[0].rpartition(":")
    if not colon or ":" in host:  # an address such as fe80::1 has colons of its own
        host, colon, number = words[0], "", ""
    rest = words[1:]
    if rest and not colon and rest[0].startswith("slots="):  # as Open MPI has it
        number, rest = rest[0].removeprefix("slots="), rest[1:]
        colon = "="
    if rest or not host or host.startswith("-"):
        raise DistributedError(
            f"[run] {where}: {' '.join(words)!r} is no host such as node1 or node1:8"
        )
    if not colon:
        return host, None
    if not number.isdigit() or int(number) < 1:
        raise DistributedError(f"[run] {where}: {number!r} is no number of processes for {host}")
    return host, int(number)


def _shared_out(room: Mapping[str, int | None], count: int, path: Path) -> dict[str, int]:
    """The processes of each host: as many as it has room for, the others in equal parts."""
    left, found = count, {}
    for host, number in room.items():
        if number is not None:
            found[host] = min(number, left)
            left -= found[host]
    open_ones = [host for host, number in room.items() if number is None]
    for at, host in enumerate(open_ones):
        found[host] = left // len(open_ones) + (at < left % len(open_ones))
    if left and not open_ones:
        raise DistributedError(
            f"[run] the hosts of {path} have room for {count - left} processes, not for {count}"
        )
    return {host: found[host] for host in room if found[host]}


def check_hosts(hosts: Sequence[str], ssh: Sequence[str]) -> None:
    """Raises DistributedError where a host cannot run what this machine runs.

    `ssh` is a command that takes a host and a command line of it. Each host has to have the same
    treadle, NumPy, Python and MPI, at the same place.
    """
    words = [sys.executable, "-m", _VERSIONS]
    variables = [f"PYTHONPATH={os.environ['PYTHONPATH']}"] if "PYTHONPATH" in os.environ else []
    line = shlex.join(["env", *variables, *words])
    own = _asked(words, "this machine")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda host: _told([*ssh, host, line], f"host {host}"), hosts)
        told = list(zip(hosts, found, strict=True))
    wrong = [answer for _, answer in told if isinstance(answer, str)]
    for host, answer in told:
        if isinstance(answer, str):
            continue
        wrong += [
            f"host {host} has {name} {answer.get(name, 'of no version')}, this machine {version}"
            for name, version in own.items()
            if answer.get(name) != version
        ]
    if wrong:
        raise DistributedError("[run] " + "\n  ".join(wrong))


def _told(command: Sequence[str], who: str) -> dict[str, str] | str:
    """What a host answers, or why it does not."""
    try:
        return _asked(command, who)
    except DistributedError as error:
        return str(error)


def _asked(command: Sequence[str], who: str) -> dict[str, str]:
    """The versions that a command prints. Raises DistributedError."""
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME,
            errors="replace", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise DistributedError(f"{who} did not answer within {TIME:.0f} seconds") from error
    except OSError as error:
        raise DistributedError(f"{who} cannot be reached: {command[0]}: {error}") from error
    if ended.returncode == 255:  # ssh's own failure
        raise DistributedError(f"{who} cannot be reached: {_last(ended.stderr)}")
    if ended.returncode:
        raise DistributedError(
            f"{who} cannot run treadle with {sys.executable}: {_last(ended.stderr)}"
        )
    try:
        # A shell may greet before it runs the command.
        return {str(k): str(v) for k, v in json.loads(ended.stdout.splitlines()[-1]).items()}
    except (ValueError, IndexError, AttributeError) as error:
        raise DistributedError(f"{who} answered {ended.stdout!r:.200}") from error


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it says no more"
