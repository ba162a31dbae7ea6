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
    return tool("ptxas", "nvidia-cuda-nvcc")


def tool(name, wheel):
    found = importlib.util.find_spec("nvidia")
    folders = found.submodule_search_locations if found else []
    places = (Path(folder, "cu13", "bin", name) for folder in folders)
    place = next(filter(Path.exists, places), None)
    if place is None:
        pytest.skip(f"{name} is missing: `pip install {wheel}` brings it")
    return place


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


_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(\S.*?);", re.MULTILINE)
_PRODUCT = re.compile(r"GMMA\.64x(\d+)x\S* R(\d+),")


def touches_sums(folder):
    """The instructions of each kernel of a corpus.cubin that use sums which units still add to.

    Those are sums of products from the first on, until all products have been waited for.
    """
    command = [tool("nvdisasm", "nvidia-cuda-nvdisasm"), "-c", folder / "corpus.cubin"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {
        name: _touching(_INSTRUCTION.findall(body))
        for name, body in re.findall(
            r"\.section\s+\.text\.(\w+)(.*?)(?=\.section|\Z)", text, re.DOTALL
        )
    }


def _touching(instructions):
    products = [n for n, one in enumerate(instructions) if _PRODUCT.search(one)]
    if not products:
        return []
    found = [_PRODUCT.search(instructions[n]) for n in products]
    sums = {int(m[2]) + n for m in found for n in range(int(m[1]) // 2)}
    waits = (n for n, one in enumerate(instructions) if "DEPBAR.LE gsb0, 0x0" in one)
    last = next(n for n in waits if n > products[-1])
    between = (one for one in instructions[products[0] : last] if "GMMA" not in one)
    return [one for one in between if sums & set(map(int, re.findall(r"\bR(\d+)\b", one)))]
