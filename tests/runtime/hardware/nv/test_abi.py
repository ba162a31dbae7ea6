"""The runtime's tables beside what a C compiler finds in NVIDIA's headers, for three releases.

`nv_abi_580.142.txt` says where it comes from. The emulator has tables of its own, made from the
headers: field by field they have to say the same.
"""

from pathlib import Path

import pytest

from treadle.emulate.nv import tables
from treadle.errors import DeviceError
from treadle.runtime.hardware.nv import abi
from treadle.runtime.hardware.structs import Struct

LINES = Path(__file__).with_name("nv_abi_580.142.txt").read_text(encoding="utf-8").splitlines()
FACTS = dict(line.rsplit(maxsplit=1) for line in LINES if not line.startswith("#"))
RELEASES = (570, 580, 590)
# What differs between releases, by another compilation than that of the emulator's tables.
DRIFT = {
    570: {
        "NVOS46_PARAMETERS": 56, "NV_VASPACE_ALLOCATION_PARAMETERS": 48,
        "NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS": 404, "NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS": 2,
    },
    580: {},
    590: {"UVM_FREE_PARAMS": 16},
}  # fmt: skip


def structures(release):
    """All that the runtime knows, those inside of others too, by their names."""
    made = abi.abi_of(f"{release}.1")
    left = [call.argument for call in (*made.calls.values(), *made.uvm.values())]
    left += [*made.parameters.values(), abi.NOTIFICATION]
    left += [control.parameters for control in made.controls.values()]
    found = {}
    while left:
        one = left.pop()
        found[one.name] = one
        kinds = [kind[0] if isinstance(kind, tuple) else kind for kind in one._fields.values()]
        left += [kind for kind in kinds if isinstance(kind, Struct)]
    del found["cards"]  # which is 32 of nv_ioctl_card_info_t, and no structure of the header
    return found


# Fields of the header that the runtime knows as those of a structure inside: how they are told.
FLATTENED = {
    "nv_ioctl_nvos02_parameters_with_fd": ("params", "NVOS02_PARAMETERS"),
    "nv_ioctl_nvos33_parameters_with_fd": ("params", "NVOS33_PARAMETERS"),
    "nv_ioctl_card_info_t": ("pci_info", "nv_pci_info_t"),
}
ALL = [(release, name) for release in RELEASES for name in structures(release)]


@pytest.mark.parametrize(("release", "name"), ALL)
def test_each_field_of_a_structure_is_where_the_header_has_it(release, name):
    known = structures(release)
    ours, theirs = known[name], tables.structure(name, release)
    places = {field: (at, ours.size_of(field)) for field, at in ours.offsets.items()}
    if name in FLATTENED:
        member, inside = FLATTENED[name]
        start, inner = ours.offsets[member], known[inside]
        places |= {field: (start + at, inner.size_of(field)) for field, at in inner.offsets.items()}
    assert ours.nbytes == theirs.nbytes
    assert places == {field: tuple(place) for field, place in theirs.fields.items()}


@pytest.mark.parametrize("release", RELEASES)
def test_sizes_are_those_of_a_second_compilation(release):
    ours = structures(release)
    known = {name: int(size) for name, size in FACTS.items() if name in ours and size.isdigit()}
    assert len(known) > 25
    assert {name: ours[name].nbytes for name in known} == known | DRIFT[release]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("alloc_memory", "NV_ESC_RM_ALLOC_MEMORY"), ("free", "NV_ESC_RM_FREE"),
        ("control", "NV_ESC_RM_CONTROL"), ("alloc", "NV_ESC_RM_ALLOC"),
        ("map_memory", "NV_ESC_RM_MAP_MEMORY"), ("map_memory_dma", "NV_ESC_RM_MAP_MEMORY_DMA"),
        ("card_info", "NV_ESC_CARD_INFO"), ("register_fd", "NV_ESC_REGISTER_FD"),
        ("check_version", "NV_ESC_CHECK_VERSION_STR"),
    ],
)  # fmt: skip
def test_a_call_has_the_number_of_the_header(ours, theirs):
    request, argument = abi.abi_of("580.142").calls[ours]
    assert request & 0xFF == tables.number(theirs)
    assert request >> 16 & 0x3FFF == argument.nbytes
    assert request >> 30 == 3
    assert request >> 8 & 0xFF == ord("F")


@pytest.mark.parametrize("name", sorted(abi.abi_of("580.142").uvm))
def test_a_call_of_uvm_has_the_number_of_the_header(name):
    assert abi.abi_of("580.142").uvm[name].request == tables.number(f"UVM_{name.upper()}")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("id_info", "NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2"),
        ("class_list", "NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2"),
        ("gid_info", "NV2080_CTRL_CMD_GPU_GET_GID_INFO"),
        ("name", "NV2080_CTRL_CMD_GPU_GET_NAME_STRING"),
        ("gr_info", "NV2080_CTRL_CMD_GR_GET_INFO"),
        ("fb_info", "NV2080_CTRL_CMD_FB_GET_INFO_V2"),
        ("token", "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN"),
        ("schedule", "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE"),
        ("mmu_fault", "NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO"),
    ],
)
def test_a_control_call_has_the_number_of_the_header(ours, theirs):
    found = abi.abi_of("580.142").controls[ours].command
    assert found == tables.number(theirs)
    assert f"{found:#x}" == FACTS.get(theirs, f"{found:#x}")


@pytest.mark.parametrize(
    ("version", "major"),
    [("570.133.20", 570), ("575.64", 570), ("580.142", 580), ("590.48.01", 590), ("610.1", 590)],
)
def test_the_release_chooses_the_tables(version, major):
    assert abi.abi_of(version).major == major


@pytest.mark.parametrize("version", ["535.1", "", "x"])
def test_an_older_release_is_refused_by_a_sentence(version):
    with pytest.raises(DeviceError, match=f"{version or 'unknown'}, and 570 or newer is needed"):
        abi.abi_of(version)
