"""A kernel for whatever device is open, made by the stages that make all kernels.

    kernel = Kernel.of(Device["CL"])          # out = x * 3 + n, 32-bit integers
    kernel.launch(loaded, x, out, n=7)        ->  a Launch

`code` and `entries` are what a runtime loads: they serve each device of that kind.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from treadle import Tensor, Variable
from treadle.engine.devices import Opened
from treadle.engine.loading import load
from treadle.engine.translation import Job, Translator
from treadle.engine.work import work_of
from treadle.ir.symbolic import unbind
from treadle.ir.text import render
from treadle.runtime.base import Entry, Launch
from treadle.schedule.passes import schedule

COUNT = 1 << 12


@dataclass(frozen=True)
class Kernel:
    """Code for `out = x * 3 + n` over COUNT integers; `x` and `out` are numbers of arguments."""

    code: bytes
    entries: Sequence[Entry]
    x: int
    out: int

    @staticmethod
    @functools.cache
    def of(opened: Opened) -> Kernel:
        number = Variable("n", 0, 1 << 20).bind(1)
        source = Tensor(np.zeros(COUNT, np.int32), device=opened.name).realize()
        roots, _ = unbind([(source * 3 + number).node])
        [step], _ = schedule(roots, opened.name, opened.target)
        job = Job("scale", render(step.ast), len(step.buffers), work_of(step.ast, step.buffers))
        described, code = Translator.of(opened).translate(job)
        taker = SimpleNamespace(load=lambda _, entries: entries, kernel_bytes=0)
        made = load("", json.loads(json.dumps(described)), code, "", _only(taker))
        assert not made.scratch
        [out] = step.writes
        return Kernel(code, made.entries, 1 - out, out)

    def load(self, device: Any) -> Any:
        """The kernel in a device of the kind that it was made for."""
        return device.load(self.code, self.entries)

    def launch(self, library: Any, x: Any, out: Any, n: int) -> Launch:
        """out = x * 3 + n"""
        args = [None, None]
        args[self.x], args[self.out] = x.argument, out.argument
        return Launch(library.phases, args, [n])


def _only(runtime: Any) -> Any:
    return SimpleNamespace(runtime=runtime)


def put(device: Any, values: Any) -> Any:
    """A buffer with these values."""
    data = np.ascontiguousarray(values)
    buffer = device.allocator.alloc(data.nbytes)
    device.write(buffer, data.reshape(-1).view("uint8").data)
    return buffer


def get(device: Any, buffer: Any, dtype: Any = np.int32) -> np.ndarray[Any, Any]:
    """The values of a buffer."""
    found = np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
    device.read(buffer, found.view("uint8").data)
    return found
