"""NVIDIA's assembler: what becomes of a kernel's registers and memory on an architecture."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest


def need(compiler):
    missing = compiler.available()
    if missing:
        pytest.skip(missing)
    return compiler


def ptxas():
    found = importlib.util.find_spec("nvidia")
    folders = found.submodule_search_locations if found else []
    tools = (Path(folder, "cu13", "bin", "ptxas") for folder in folders)
    tool = next(filter(Path.exists, tools), None)
    if tool is None:
        pytest.skip("ptxas is missing: `pip install nvidia-cuda-nvcc` brings it")
    return tool


_FIGURES = re.compile(
    r"function 'k_(?P<kernel>\d+)'.*?(?P<spilled>\d+) bytes spill stores"
    r".*?Used (?P<registers>\d+) registers[^\n]*?(?:(?P<shared>\d+) bytes smem|\n)",
    re.DOTALL,
)


def assembled(ptx, arch, folder):
    """What ptxas says of each kernel: registers, bytes of shared memory, bytes spilled."""
    source = folder / "corpus.ptx"
    source.write_bytes(ptx)
    command = [ptxas(), "-v", f"-arch={arch}", source, "-o", folder / "corpus.cubin"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "serialized" not in done.stderr  # what the assembler does to wgmma that it mistrusts
    found = _FIGURES.finditer(done.stderr)
    return {int(m["kernel"]): tuple(int(m[n] or 0) for n in ("registers", "shared", "spilled"))
            for m in found}  # fmt: skip
