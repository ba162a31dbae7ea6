"""CONTRIBUTING's walks are true: a toy op and a toy backend are added as they say, and work.

Each is added to a copy of the sources. The files that it takes are those that the walk names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


class Copy:
    """A copy of the sources that can be changed, and run in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder / "sources", folder / "cache"
        self.changed: set[str] = set()
        shutil.copytree(ROOT / "src" / "treadle", self.folder / "treadle")

    def add(self, path: str, text: str) -> None:
        """A new file."""
        assert not self._place(path).exists()
        self._write(path, text)

    def insert(self, path: str, before: str, text: str) -> None:
        """Puts `text` in front of the one place that says `before`."""
        old = self._place(path).read_text(encoding="utf-8")
        assert old.count(before) == 1, (path, before)
        self._write(path, old.replace(before, text + before))

    def run(self, *arguments: str, **variables: str) -> str:
        """What a process prints that runs the copy; it must end well."""
        chosen = {"EMULATE", "DEV", "CACHE_DIR", "PYTHONPATH"}
        kept = {name: value for name, value in os.environ.items() if name not in chosen}
        done = subprocess.run(
            [sys.executable, *arguments], text=True, capture_output=True, timeout=300,
            env={**kept, "PYTHONPATH": str(self.folder), "CACHE_DIR": str(self.cache), **variables},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _place(self, path: str) -> Path:
        return self.folder / "treadle" / path

    def _write(self, path: str, text: str) -> None:
        self.changed.add(path)
        self._place(path).write_text(text, encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def steps(walk: str) -> set[str]:
    """The first file or folder of the sources that each step of a walk names."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition(f"## {walk}\n")[2].partition("\n## ")[0]
    numbered = re.findall(r"^\d+\. (.*(?:\n   .*)*)", section, re.MULTILINE)
    assert numbered, walk
    names = [re.search(r"`([a-z_]+/[\w./]*)`", step) for step in numbered]
    return {name[1] for name in names if name and not name[1].startswith("docs/")}


# -- an op ----------------------------------------------------------------------------------------

PROGRAM = """
import numpy as np
from treadle import Context, Tensor, jvp
from treadle.errors import DeviceError

values = np.linspace(-3, 3, 38, dtype=np.float32)
for device in ("CPU", "REF", "CL", "WEBGPU"):
    try:
        x = Tensor(values, device=device, requires_grad=True)
    except DeviceError:
        continue
    y = x.cbrt()
    y.sum().backward()
    np.testing.assert_allclose(y.numpy(), np.cbrt(values), rtol=1e-5)
    slope = 1 / (3 * np.cbrt(values) ** 2)
    np.testing.assert_allclose(x.grad.numpy(), slope, rtol=1e-5)
    _, moved = jvp(lambda t: t.cbrt(), (x.detach(),), (x.detach(),))
    np.testing.assert_allclose(moved.numpy(), slope * values, rtol=1e-5)
    if device != "REF":
        with Context(CHECK_KERNELS=1):
            (x.detach().half().cbrt() + 1).realize()
    print(device)
assert Tensor.full((2,), 27.0, device="REF").cbrt().tolist() == [3, 3]  # as in NumPy
"""


def test_an_elementwise_op_is_added_as_the_walk_says(copy: Copy) -> None:
    copy.insert("ir/op.py", "    TANH = auto()\n", "    CBRT = auto()\n")
    copy.insert("ir/op.py", "    Op.TANH: ", '    Op.CBRT: OpInfo(1, "cube root", "cbrt"),\n')
    copy.insert(
        "lower/math.py", "MATH: dict[",
        "def cbrt(x: Node) -> Node:\n"
        "    size = exp2(log2((x < 0).where(-x, x)) * (1 / 3))\n"
        "    return (x < 0).where(-size, size)\n\n\n",
    )  # fmt: skip
    copy.insert("lower/math.py", "    Op.TANH: tanh,", "    Op.CBRT: cbrt,\n")
    copy.insert(
        "transforms/grad.py", "    Op.TANH: lambda",
        "    Op.CBRT: lambda n, g: (g / (n * n * 3.0),),\n",
    )  # fmt: skip
    copy.insert(
        "tensor/basis/mathematics.py", "    def asinh(self)",
        "    def cbrt(self) -> Self:\n"
        '        """The cube root, elementwise."""\n'
        "        return self._float_unary(Op.CBRT)\n\n",
    )  # fmt: skip
    assert copy.run("-c", PROGRAM).split()[:2] == ["CPU", "REF"]
    assert copy.changed == steps("How to add an op")


# -- a backend ------------------------------------------------------------------------------------

RUNTIME = '''"""TOY: the processor, which hides its memory from the host."""

from treadle.runtime.cpu import CpuDevice

__all__ = ["ToyDevice"]


class ToyDevice(CpuDevice):
    shares_memory = False
    takes_host_memory = False
    is_software = False
    about = ""
'''

RECORD = '''"""TOY: the processor as a device of its own."""

import os

from ..errors import DeviceError
from .cpu import LLVM
from .record import Backend, Request, Toolchain

__all__ = ["TOY"]


def _open(request: Request):
    from ..runtime.toy import ToyDevice

    about = _describe(request)
    device = ToyDevice(request.name, LLVM.target(request), request.compile_ir, 1)
    device.about, device.is_software = about, request.emulation is not None
    return device


def _describe(request: Request) -> str:
    if "TOY_IS_BROKEN" in os.environ:
        raise DeviceError("TOY is broken; `mend toy` mends it")
    if request.emulation is not None:
        return f"{request.emulation.devices} emulated {request.emulation.chip}"
    return f"a toy by {request.interface or 'any way'}"


CODE = Toolchain("LLVM", "embedded", LLVM.compiler, LLVM.renderer, LLVM.target, ("TOY_LLVM",))
TOY = Backend(
    "TOY",
    "a toy",
    (CODE,),
    _open,
    _describe,
    spellings=("PLAYTHING",),
    interfaces=("USB", "PCI"),
    emulated_chip="toy1",
    dlpack=99,
)
'''

SHOW = """
from treadle import Device, Tensor
opened = Device[Device.DEFAULT]
x = Tensor([1.0, 2.0, 3.0])
assert (x @ x + 1).tolist() == 15
assert x.to("CPU").tolist() == [1, 2, 3]
print(opened.name, opened.compiler.name, opened.runtime.about, x.__dlpack_device__())
"""
NAMED = """
from treadle import Device, Tensor
print([(Device[name].name, Device[name].runtime.about) for name in ("toy", "pci+toy", "usb+toy:1")])
assert (Tensor([1.0], device="PCI+TOY") + 1).__dlpack_device__() == (99, 0)
"""
REFUSED = """
from treadle import Device
from treadle.errors import UserError
try: Device.DEFAULT
except UserError as error: print(error)
"""


@pytest.fixture(scope="module")
def with_toy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("toy"))
    copy.add("runtime/toy.py", RUNTIME)
    copy.add("backends/toy.py", RECORD)
    copy.insert("backends/__init__.py", "from .webgpu import", "from .toy import TOY\n")
    copy.insert("backends/__init__.py", "REF, NULL]", "TOY, ")
    return copy


def test_a_backend_is_added_as_the_walk_says(with_toy: Copy) -> None:
    assert {path.replace("toy.py", "") for path in with_toy.changed} == steps(
        "How to add a runtime"
    )


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({"TOY": "1"}, "TOY LLVM a toy by any way (99, 0)"),
        ({"PLAYTHING": "1", "TOY_LLVM": "1", "TOY_IFACE": "PCI"}, "TOY LLVM a toy by PCI (99, 0)"),
        ({"DEV": "usb+toy:2:llvm"}, "TOY:2 LLVM a toy by USB (99, 2)"),
        ({"TOY": "1", "EMULATE": "toy2"}, "TOY LLVM 1 emulated toy2 (12, 0)"),
        ({"DEV": "TOY", "EMULATE": "3"}, "TOY LLVM 3 emulated toy1 (12, 0)"),
    ],
    ids=str,
)
def test_an_added_backend_is_chosen_by_its_names_and_computes(
    with_toy: Copy, variables: dict[str, str], shown: str
) -> None:
    assert with_toy.run("-c", SHOW, **variables) == shown + "\n"


def test_a_program_names_an_interface_of_an_added_backend(with_toy: Copy) -> None:
    usb = ("TOY", "a toy by USB")
    others = [("PCI+TOY", "a toy by PCI"), ("TOY:1", "a toy by USB")]
    assert with_toy.run("-c", NAMED, DEV="USB+TOY") == f"{[usb, *others]}\n"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"DEV": "KFD+TOY"}, "TOY has no interface 'KFD'; it has USB, PCI"),
        ({"DEV": "TOY:CLANG"}, "TOY has no compiler 'CLANG'; it has LLVM"),
        ({"TOY": "1", "CPU": "1"}, "CPU=1 and TOY=1 contradict each other"),
        ({"CPU": "1", "EMULATE": "1"}, "CPU has no emulator, only CUDA, METAL, AMD, NV, QCOM, TOY"),
        (
            {"DEV": "TOYS"},
            (
                "no device 'TOYS'; known are "
                "AMD, CL, CPU, CUDA, METAL, NULL, NV, QCOM, REF, TOY, WEBGPU"
            ),
        ),
    ],
    ids=str,
)
def test_what_contradicts_an_added_backend_is_refused(
    with_toy: Copy, variables: dict[str, str], words: str
) -> None:
    assert words in with_toy.run("-c", REFUSED, **variables)


def test_doctor_lists_an_added_backend_and_says_what_mends_it(with_toy: Copy) -> None:
    rows = json.loads(with_toy.run("-m", "treadle", "doctor", "--json"))
    found = [row for row in rows if row["runtime"] == "TOY"]
    assert [(row["interface"], row["usable"]) for row in found] == [("USB", True), ("PCI", True)]
    assert found[0] == {
        "runtime": "TOY", "compiler": "LLVM", "interface": "USB", "usable": True,
        "reason": "a toy by USB", "fix": "",
    }  # fmt: skip
    rows = json.loads(with_toy.run("-m", "treadle", "doctor", "--json", TOY_IS_BROKEN="1"))
    broken = next(row for row in rows if row["runtime"] == "TOY")
    assert (broken["reason"], broken["fix"]) == ("TOY is broken", "`mend toy` mends it")


def test_the_tests_run_on_an_added_backend(with_toy: Copy) -> None:
    code = "from treadle.backends.toy import TOY; print(TOY.tested_devices)"
    assert with_toy.run("-c", code) == "{'TOY': ['TOY']}\n"
