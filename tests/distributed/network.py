"""Two hosts made of network namespaces, and the wire between them, which delays and loses frames.

    with TwoHosts(delay=0.002, loss=0.01) as hosts:
        run(2, "training.py", hosts=hosts)
        assert hosts.lost

The wire is a thread of this process between two TAP devices. So it needs no queueing discipline of
the kernel's (`tc` has netem in few), loses the same frames in each run, and counts them. Each host
has a name and shared memory of its own, or MPI would take both for one machine.

A direct wire is a pair of the kernel's devices (veth). It takes no core's time of its own, so that
benchmarks on few cores measure the program; it can neither delay frames nor lose any.
"""

from __future__ import annotations

import fcntl
import heapq
import itertools
import json
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

__all__ = ["NEEDS_HOSTS", "TwoHosts", "missing"]

TUN = "/dev/net/tun"
_SET_DEVICE, _TAP, _NO_HEADER = 0x400454CA, 0x0002, 0x1000  # linux/if_tun.h
_LONGEST_FRAME = 2048
_LOOK = 0.05  # seconds
_numbers = itertools.count()


def missing() -> str:
    """What hinders two hosts here, if anything does."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "two hosts need root on Linux, for network namespaces"
    tools = [tool for tool in ("ip", "unshare") if shutil.which(tool) is None]
    if tools:
        return f"two hosts need the program {tools[0]}: apt install iproute2 util-linux"
    if not os.access(TUN, os.W_OK):
        return f"two hosts need {TUN}"
    made = subprocess.run(
        ["unshare", "--net", "--uts", "--ipc", "true"], capture_output=True, check=False
    )
    return "" if made.returncode == 0 else "two hosts need the right to make network namespaces"


NEEDS_HOSTS = pytest.mark.skipif(bool(missing()), reason=missing() or "two hosts can be made")


class TwoHosts:
    """Frames take `delay` seconds, a part `loss` of them is lost, `rate` bytes pass a second.

    What waits for the rate is at most `queue` bytes each way; what comes then is lost as well.
    With `is_direct` the kernel carries the frames at once, and none are counted.
    """

    def __init__(
        self, folder: Path, delay: float = 0.0, loss: float = 0.0, rate: float = float("inf"),
        queue: int = 1 << 20, is_direct: bool = False,
    ) -> None:  # fmt: skip
        mark = f"{os.getpid()}x{next(_numbers)}"
        self.names = [f"treadle-{mark}{side}" for side in "ab"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]
        self.file, self.ssh = folder / "hosts", folder / "ssh"
        self.carried = self.lost = 0
        self.is_cut = False
        self._delay, self._loss, self._rate, self._queue = delay, loss, rate, queue
        self._devices = [f"td{mark}{side}"[-15:] for side in "ab"]
        if is_direct and (delay, loss, rate) != (0.0, 0.0, float("inf")):
            raise ValueError("a direct wire takes no delay, loss or rate")
        self._is_direct, self._taps = is_direct, list[int]()
        self._is_open = True
        self._wire = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Self:
        try:
            if self._is_direct:
                first, second = self._devices
                _ip("link", "add", first, "type", "veth", "peer", "name", second)
            for name, address, device in zip(
                self.names, self.addresses, self._devices, strict=True
            ):
                self._add(name, address, device)
        except BaseException:
            self._remove()
            raise
        self.file.write_text("".join(f"{address}:1\n" for address in self.addresses))
        # A program in place of ssh: it takes a host, and a command line of it.
        first, second = self.names
        self.ssh.write_text(
            '#!/bin/sh\n[ "$1" = -x ] && shift\nhost=$1; shift\n'
            f"case $host in {self.addresses[0]}) name={first};; {self.addresses[1]}) "
            f'name={second};; *) echo "no route to $host" >&2; exit 255;; esac\n'
            f'exec ip netns exec $name unshare --uts --ipc sh -c "hostname $host; $*"\n'
        )
        self.ssh.chmod(0o755)
        if not self._is_direct:
            self._wire.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._is_open = False
        if not self._is_direct:
            self._wire.join()
        for number in self.running():
            os.kill(number, 9)
        self._remove()

    def on_first(self) -> list[str]:
        """The words before a command that runs it on the first host."""
        inside = f'hostname {self.addresses[0]}; exec "$@"'
        return [
            "ip", "netns", "exec", self.names[0], "unshare", "--uts", "--ipc", "sh", "-c", inside,
            "sh",
        ]  # fmt: skip

    def running(self) -> list[int]:
        """The processes on both hosts."""
        told = [_ip("netns", "pids", name) for name in self.names]
        return [int(word) for text in told for word in text.split()]

    def bytes_sent(self) -> int:
        """What the first host has put on the wire."""
        device = _ip("-n", self.names[0], "-s", "-j", "link", "show", "dev", self._devices[0])
        return json.loads(device)[0]["stats64"]["tx"]["bytes"]

    def _add(self, name: str, address: str, device: str) -> None:
        _ip("netns", "add", name)
        if not self._is_direct:
            tap = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
            self._taps.append(tap)
            settings = struct.pack("16sH22x", device.encode(), _TAP | _NO_HEADER)
            fcntl.ioctl(tap, _SET_DEVICE, settings)
        _ip("link", "set", device, "netns", name)
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
        for link in ("lo", device):
            _ip("-n", name, "link", "set", link, "up")

    def _remove(self) -> None:
        for tap in self._taps:
            os.close(tap)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        if self._is_direct:  # where it did not come into a namespace, it is still here
            first, _ = self._devices
            subprocess.run(["ip", "link", "del", first], capture_output=True, check=False)

    def _carry(self) -> None:
        chance = random.Random(1)
        other = dict(zip(self._taps, reversed(self._taps), strict=True))
        free, queued = dict.fromkeys(self._taps, 0.0), dict.fromkeys(self._taps, 0)
        under_way: list[tuple[float, int, int, bytes]] = []
        while self._is_open:
            now = time.monotonic()
            while under_way and under_way[0][0] <= now:
                _, _, to, frame = heapq.heappop(under_way)
                queued[to] -= len(frame)
                os.write(to, frame)
            wait = max(0.0, under_way[0][0] - now) if under_way else _LOOK
            for tap in select.select(self._taps, [], [], min(wait, _LOOK))[0]:
                frame, to = os.read(tap, _LONGEST_FRAME), other[tap]
                is_full = queued[to] + len(frame) > self._queue
                if self.is_cut or is_full or chance.random() < self._loss:
                    self.lost += 1
                    continue
                self.carried += 1
                queued[to] += len(frame)
                free[to] = max(time.monotonic(), free[to]) + len(frame) / self._rate
                entry = (free[to] + self._delay, self.carried, to, frame)
                heapq.heappush(under_way, entry)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout
