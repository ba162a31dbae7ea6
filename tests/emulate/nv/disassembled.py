"""What nvdisasm tells of machine code that is in no cubin.

    constants(code, "SM80")      the words of constant bank 0 that it reads
    targets(code, "SM80")        where its absolute calls lead

The test skips where the wheel nvidia-cuda-nvdisasm is missing.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from importlib import metadata

import pytest

from treadle.emulate.nv.constant_words import reads_of


def nvdisasm() -> str:
    """The path of the wheel's program."""
    try:
        files = metadata.files("nvidia-cuda-nvdisasm") or []
    except metadata.PackageNotFoundError:
        pytest.skip("nvidia-cuda-nvdisasm is not installed")
    return str(next(file.locate() for file in files if file.name == "nvdisasm"))


def constants(code: bytes, chip: str) -> frozenset[int]:
    """The words of constant bank 0 that code reads, by their places in bytes."""
    return reads_of(_listing(code, chip).splitlines()).words


def targets(code: bytes, chip: str) -> list[int]:
    """Where the absolute calls in code lead."""
    found = re.findall(r"CALL\.ABS\.NOINC (0x[0-9a-f]+)", _listing(code, chip))
    return [int(target, 16) for target in found]


def _listing(code: bytes, chip: str) -> str:
    with tempfile.NamedTemporaryFile() as file:
        file.write(code)
        file.flush()
        command = [nvdisasm(), "-b", chip, file.name]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
