"""RM and UVM by NVIDIA's headers alone: what they give, and what they refuse."""

import ctypes
import errno

import pytest

from treadle.emulate.nv import tables

from .conftest import PAGE, Process, Refused


@pytest.mark.parametrize("release", [570, 580, 590])
def test_the_chain_of_objects_works_for_each_release(release):
    process = Process(release=release).open()
    at, handle = process.mapped()
    assert process.gpu.channels == {}
    process.uvm("FREE", base=at)
    process.free(process.device, handle)


def test_calls_of_another_release_are_of_another_size():
    process = Process(release=570)
    argument = bytearray(64)
    request = 3 << 30 | 64 << 16 | ord("F") << 8 | tables.number("NV_ESC_RM_MAP_MEMORY_DMA")
    with pytest.raises(OSError, match="NVOS46_PARAMETERS has 56 bytes, not 64") as caught:
        process.platform.ioctl(process.control, request, argument)
    assert caught.value.errno == errno.EINVAL


def test_unknown_calls_are_no_calls(process):
    for fd in (process.control, process.uvm_fd):
        with pytest.raises(OSError) as caught:
            process.platform.ioctl(fd, 0xC0204699, bytearray(32))
        assert caught.value.errno == errno.ENOTTY


def test_the_driver_tells_of_its_version_and_its_gpus():
    process = Process("sm_90a")
    told = process.escape("CHECK_VERSION_STR", "nv_ioctl_rm_api_version_t", cmd=ord("2"))
    text = told["versionString"].to_bytes(64, "little")
    assert text.rstrip(b"\0") == b"580.142"
    layout = process.layout("nv_ioctl_card_info_t")
    argument = bytearray(32 * layout.nbytes)
    number = tables.number("NV_ESC_CARD_INFO")
    process.platform.ioctl(
        process.control, 3 << 30 | len(argument) << 16 | ord("F") << 8 | number, argument
    )
    valid = [layout.get(argument[n * layout.nbytes :], "valid") for n in range(32)]
    assert valid == [1] + [0] * 31


def test_a_gpus_file_is_registered_before_it_has_objects():
    process = Process()
    with pytest.raises(Refused, match="INVALID_DEVICE"):
        process.alloc(process.client, "NV01_DEVICE_0", "NV0080_ALLOC_PARAMETERS")


@pytest.mark.parametrize(
    ("parent", "kind", "structure", "status"),
    [
        ("client", "NV20_SUBDEVICE_0", "NV2080_ALLOC_PARAMETERS", "INVALID_CLASS"),
        ("subdevice", "NV01_MEMORY_VIRTUAL", "NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS",
         "INVALID_OBJECT_PARENT"),
        ("device", "FERMI_CONTEXT_SHARE_A", "NV_CTXSHARE_ALLOCATION_PARAMETERS",
         "INVALID_OBJECT_PARENT"),
        ("device", "AMPERE_COMPUTE_A", None, "INVALID_OBJECT_PARENT"),
        ("device", "HOPPER_COMPUTE_A", None, "INVALID_CLASS"),
        ("device", "FERMI_VASPACE_A", None, "INVALID_PARAM_STRUCT"),
    ],
)  # fmt: skip
def test_an_object_has_its_place(process, parent, kind, structure, status):
    where = getattr(process, parent)
    with pytest.raises(Refused, match=status):
        process.alloc(where, kind, structure)


def test_handles_that_do_not_exist_or_exist_already_are_refused(process):
    with pytest.raises(Refused, match="INVALID_OBJECT_HANDLE"):
        process.alloc(0x999, "NV20_SUBDEVICE_0", "NV2080_ALLOC_PARAMETERS")
    with pytest.raises(Refused, match="INSERT_DUPLICATE_NAME"):
        process.alloc(
            process.device, "NV20_SUBDEVICE_0", "NV2080_ALLOC_PARAMETERS", process.subdevice
        )
    with pytest.raises(Refused, match="INVALID_OBJECT_PARENT"):
        process.free(process.subdevice, process.space)
    with pytest.raises(Refused, match="INVALID_OBJECT_HANDLE"):
        process.ask(process.space, "NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2",
                    "NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS")  # fmt: skip
    process.client += 1
    with pytest.raises(Refused, match="INVALID_CLIENT"):
        process.free(process.device, process.subdevice)


def test_what_is_freed_is_gone_with_all_below_it(process):
    process.free(process.client, process.device)
    with pytest.raises(Refused, match="INVALID_OBJECT_HANDLE"):
        process.ask(process.subdevice, "NV2080_CTRL_CMD_GPU_GET_GID_INFO",
                    "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS", flags=2)  # fmt: skip


def test_a_gpus_memory_ends(process):
    whole = process.gpu.chip.vram
    first = process.memory(whole - PAGE, "NV01_MEMORY_LOCAL_USER")
    with pytest.raises(Refused, match="NO_MEMORY"):
        process.memory(2 * PAGE, "NV01_MEMORY_LOCAL_USER")
    process.free(process.device, first)
    process.memory(2 * PAGE, "NV01_MEMORY_LOCAL_USER")


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"owner": 1}, "INVALID_ARGUMENT"), ({"attr": 0}, "INVALID_ARGUMENT"),
        ({"limit": 7}, "INVALID_LIMIT"), ({"flags": 0}, "INVALID_ARGUMENT"),
        ({"size": 100}, "INVALID_ARGUMENT"),
    ],
)  # fmt: skip
def test_wrong_parameters_of_memory_are_refused(process, values, status):
    with pytest.raises(Refused, match=status):
        process.memory(**values)


def test_memory_is_seen_by_host_and_gpu(process):
    at, _ = process.mapped()
    space = process.driver.rm.objects.find(process.client, process.space).space
    process.platform.store64(at, 0x1234)
    assert space.read64(at) == 0x1234
    space.write64(at + 8, 5)
    assert process.platform.load64(at + 8) == 5


def test_memory_of_the_program_is_used_in_place(process):
    data = ctypes.create_string_buffer(3 * PAGE)
    start = -(-ctypes.addressof(data) // PAGE) * PAGE
    process.escape(
        "RM_ALLOC_MEMORY", "nv_ioctl_nvos02_parameters_with_fd", hRoot=process.client,
        hObjectParent=process.device, hObjectNew=0x50, hClass=0x71, pMemory=start, limit=PAGE - 1,
    )  # fmt: skip
    at = process.platform.reserve_low(PAGE, PAGE)
    process.map_for_gpu(0x50, at, PAGE)
    ctypes.memmove(start, b"here", 4)
    assert (
        process.driver.rm.objects.find(process.client, process.space).space.read(at, 4) == b"here"
    )


def test_ranges_do_not_meet_and_are_of_whole_pages(process):
    at, handle = process.mapped(2 * PAGE)
    with pytest.raises(Refused, match="UVM_ADDRESS_IN_USE"):
        process.uvm("CREATE_EXTERNAL_RANGE", base=at + PAGE, length=PAGE)
    for base, length in ((at + 100, PAGE), (at, 100), (0, PAGE), (1 << 48, PAGE)):
        with pytest.raises(Refused, match="INVALID_ADDRESS"):
            process.uvm("CREATE_EXTERNAL_RANGE", base=base, length=length)
    with pytest.raises(Refused, match="INVALID_STATE"):
        process.free(process.device, handle)
    process.uvm("FREE", base=at)
    with pytest.raises(Refused, match="INVALID_ADDRESS"):
        process.uvm("FREE", base=at)
    process.free(process.device, handle)


def test_uvm_knows_only_what_is_registered():
    process = Process().open()
    other = process.alloc(
        process.device, "FERMI_VASPACE_A", "NV_VASPACE_ALLOCATION_PARAMETERS", flags=0
    )
    with pytest.raises(Refused, match="INVALID_ARGUMENT"):  # an address space that RM owns
        process.uvm("REGISTER_GPU_VASPACE", gpuUuid=process.uuid, hVaSpace=other, **process.mine)
    with pytest.raises(Refused, match="INVALID_DEVICE"):
        process.uvm("REGISTER_GPU", gpu_uuid=7, **process.mine)


def test_a_lost_gpu_says_so(process):
    process.gpu.lose()
    with pytest.raises(Refused, match="GPU_IS_LOST"):
        process.memory()
