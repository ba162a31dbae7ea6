"""What a run without `--full` leaves out of tests that are alike: the same one of them every time.

    chosen("Tensor.sum axis 'a'", 2)   ->  True for about half of all names, of which each stays so

Of a test that takes both compilers of CUDA one runs, which one its name decides: each compiler
makes the kernels of half of these tests, and each test still runs on the emulated GPU. Where the
compilers are what is tested (`BOTH`), both run, and so they do with TEST_DEVICES or `--full`.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

BOTH = ("tests/bench/", "tests/emulate/", "tests/render/", "tests/reported/", "tests/runtime/")


def chosen(name: str, of: int) -> bool:
    """Whether `name` is among the share 1 / `of` of all names that runs; with `--full` all are."""
    return "FULL_TESTS" in os.environ or zlib.crc32(name.encode()) % of == 0


def one_compiler_each(items: list[Any]) -> list[Any]:
    """The tests without the second run of those that take both compilers of CUDA."""
    if "FULL_TESTS" in os.environ or "TEST_DEVICES" in os.environ:
        return items
    twins = {twin: item for item in items if (twin := _twin(item))}
    names = {item.nodeid for item in items}
    dropped = set()
    for twin, item in twins.items():
        if twin in names:
            dropped.add(item.nodeid if zlib.crc32(twin.encode()) % 2 else twin)
    return [item for item in items if item.nodeid not in dropped]


def _twin(item: Any) -> str:
    """The name of the same test with NVRTC, of one with PTX; else none."""
    given = getattr(item, "callspec", None)
    if given is None or item.nodeid.startswith(BOTH):
        return ""
    if not any(isinstance(value, str) and value == "CUDA:PTX" for value in given.params.values()):
        return ""
    return item.nodeid.replace("CUDA:PTX", "CUDA")
