"""The records of backends: they contradict neither each other nor what the pages say."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from treadle import Context
from treadle.backends import BACKENDS, CPU, backend_of, emulation_of, find
from treadle.backends.cuda import CUDA
from treadle.errors import SettingError
from treadle.runtime import dlpack

ROOT = Path(__file__).parents[2]
HERE = [backend for backend in BACKENDS if backend.is_here]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_no_name_means_two_things():
    variables = [name for backend in BACKENDS for name in backend.all_spellings]
    assert len({*variables}) == len(variables)
    assert len({backend.name for backend in BACKENDS}) == len(BACKENDS)
    for backend in HERE:
        compilers = [toolchain.name for toolchain in backend.toolchains]
        assert len({*compilers}) == len(compilers)


def test_a_backend_is_found_by_its_name_and_by_its_devices():
    assert find("CUDA") is backend_of("CUDA:1:PTX") is CUDA
    assert find("TPU") is None


def test_the_page_of_devices_has_the_table_that_the_records_make():
    shown = page("docs/devices.md").partition("## What there is")[2].partition("\n\n`CPU:1`")[0]
    rows = [line for line in shown.splitlines() if line.startswith("| `")]
    assert rows == [backend.table_row for backend in HERE]


@pytest.mark.parametrize("backend", HERE, ids=lambda backend: backend.name)
def test_the_pages_say_every_way_to_choose_a_backend(backend):
    devices = page("docs/devices.md")
    for name in (*backend.all_spellings, *backend.variables):
        assert f"{name}=" in devices or f"`{name}`" in devices, name
    assert f"`{backend.name}`" in page("README.md")


@pytest.mark.parametrize("backend", HERE, ids=lambda backend: backend.name)
def test_an_extra_is_an_optional_dependency_of_the_package(backend):
    extras = tomllib.loads(page("pyproject.toml"))["project"]["optional-dependencies"]
    assert backend.extra is None or backend.extra in extras


def test_types_of_memory_are_those_of_dlpack():
    assert (CPU.dlpack_host, CUDA.dlpack) == (dlpack.CPU, dlpack.CUDA)
    types = [kind for one in BACKENDS for kind in (one.dlpack, one.dlpack_host) if kind]
    assert len({*types, dlpack.EMULATED}) == len(types) + 1


def test_only_hardware_that_can_be_looked_for_is_chosen_unasked():
    assert all(backend.nodes for backend in HERE if backend.is_chosen_unasked)


def test_records_load_neither_a_runtime_nor_a_compiler():
    parts = ("runtime", "render", "compile", "emulate", "engine")
    code = (
        "import sys, treadle.backends\n"
        f"print([m for m in sys.modules if m.split('.')[:2] in [['treadle', p] for p in {parts}]])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- emulation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "arch", "played"),
    [
        (1, None, (1, "sm_80")),
        (3, None, (3, "sm_80")),
        (2, "sm_89", (2, "sm_89")),
        ("sm_90a", None, (1, "sm_90a")),
        ("sm_90a", "sm_80", (1, "sm_90a")),
        ("SM_90A", None, (1, "sm_90a")),
    ],
)
def test_emulate_names_a_chip_or_a_number_of_devices(wish, arch, played):
    with Context(EMULATE=wish):
        found = emulation_of(CUDA, arch)
        assert emulation_of(CPU, arch) is None
    assert found is not None
    assert (found.devices, found.chip) == played


def test_without_the_wish_nothing_is_emulated():
    with Context(EMULATE=0):
        assert emulation_of(CUDA, "sm_90a") is None


@pytest.mark.parametrize("wish", ["yes", "17", "-1", "sm-90", "1.5"])
def test_what_is_neither_a_chip_nor_a_number_of_devices_is_refused(wish):
    with pytest.raises(SettingError, match="an integer 0 to 16, or a chip such as sm_90a"):
        Context(EMULATE=wish)
