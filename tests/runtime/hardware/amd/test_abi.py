"""The runtime's tables beside what a C compiler finds in the headers of Linux and HSA.

`kfd_aql_abi.txt` says where it comes from. The emulator has tables of its own, read from a header:
field by field they have to say the same.
"""

from pathlib import Path

import pytest

from treadle.emulate.kfd import tables
from treadle.runtime.hardware.amd import abi

LINES = Path(__file__).with_name("kfd_aql_abi.txt").read_text(encoding="utf-8").splitlines()
FACTS = dict(line.rsplit(maxsplit=1) for line in LINES if not line.startswith("#"))
# Calls that the runtime does not make: the emulator's table is compared for these.
OF_OTHERS = ("GET_PROCESS_APERTURES_NEW", "SET_EVENT", "SVM")
HSA = {
    "hsa_kernel_dispatch_packet_t": abi.DISPATCH_PACKET,
    "hsa_barrier_and_packet_t": abi.BARRIER_PACKET,
    "amd_queue_t": abi.AMD_QUEUE,
    "amd_signal_t": abi.AMD_SIGNAL,
}
DATA = {
    "kfd_event_data": abi.EVENT_DATA,
    "kfd_hsa_memory_exception_data": abi.MEMORY_EXCEPTION,
    "kfd_hsa_hw_exception_data": abi.HW_EXCEPTION,
}


def numbers(prefix):
    return [
        (name.removeprefix(prefix), int(value, 0))
        for name, value in FACTS.items()
        if name.startswith(prefix)
    ]


@pytest.mark.parametrize(("name", "number"), numbers("AMDKFD_IOC_"))
def test_a_call_has_the_number_of_the_header(name, number):
    if name in OF_OTHERS:
        assert name.lower() not in abi.CALLS
    else:
        assert abi.CALLS[name.lower()].request == number


@pytest.mark.parametrize(("name", "number"), numbers("AMDKFD_IOC_"))
def test_the_emulated_driver_knows_a_call_by_the_number_of_the_header(name, number):
    if name == "SVM":  # not emulated: it is refused, as any unknown call is
        assert number not in tables.ioctls()
    else:
        assert tables.ioctls()[number].name == name.lower()


@pytest.mark.parametrize(("name", "nbytes"), numbers("struct "))
def test_an_argument_has_the_size_of_the_header(name, nbytes):
    assert tables.layout(name).nbytes == nbytes
    call = name.removeprefix("kfd_ioctl_").removesuffix("_args")
    if call in abi.CALLS:
        assert abi.CALLS[call].argument.nbytes == nbytes
    elif name in DATA:
        assert DATA[name].nbytes == nbytes


@pytest.mark.parametrize("name", sorted(abi.CALLS))
def test_runtime_and_emulated_driver_have_the_same_fields(name):
    request, ours = abi.CALLS[name]
    theirs = tables.ioctls()[request].layout
    assert theirs.nbytes == ours.nbytes
    assert {field: (ours.offsets[field], ours.size_of(field)) for field in ours.offsets} == {
        field: tuple(place) for field, place in theirs.fields.items()
    }


@pytest.mark.parametrize(
    ("name", "ours", "theirs"),
    [
        ("memory", abi.MEMORY_EXCEPTION, "kfd_hsa_memory_exception_data"),
        ("hardware", abi.HW_EXCEPTION, "kfd_hsa_hw_exception_data"),
    ],
)
def test_runtime_and_emulated_driver_tell_of_faults_alike(name, ours, theirs):
    places = [tuple(place) for place in tables.layout(theirs).fields.values()]
    assert places == [(ours.offsets[field], ours.size_of(field)) for field in ours.offsets]


@pytest.mark.parametrize(("name", "value"), numbers("KFD_IOC_QUEUE_TYPE_"))
def test_a_queue_type_has_the_number_of_the_header(name, value):
    assert abi.QueueType[name] == value


@pytest.mark.parametrize(("name", "value"), numbers("KFD_IOC_EVENT_"))
def test_an_event_type_has_the_number_of_the_header(name, value):
    assert abi.EventType[name] == value


@pytest.mark.parametrize(("name", "value"), numbers("KFD_IOC_ALLOC_MEM_FLAGS_"))
def test_a_flag_of_memory_has_the_bit_of_the_header(name, value):
    assert abi.Memory[name] == value & 0xFFFFFFFF  # bit 31 is sign-extended there


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, value in FACTS.items() if name.partition(".")[0] in HSA],
)
def test_a_structure_of_hsa_is_laid_out_as_in_its_header(name, value):
    structure, _, field = name.partition(".")
    ours = HSA[structure]
    assert (ours.offsets[field] if field else ours.nbytes) == int(value, 0)


def test_a_kernel_descriptor_has_its_fields_where_llvm_documents_them():
    offsets = abi.KERNEL_DESCRIPTOR.offsets
    assert abi.KERNEL_DESCRIPTOR.nbytes == 64
    assert (offsets["kernel_code_entry_byte_offset"], offsets["compute_pgm_rsrc3"]) == (16, 44)
    assert (offsets["compute_pgm_rsrc1"], offsets["compute_pgm_rsrc2"]) == (48, 52)
    assert (offsets["kernel_code_properties"], offsets["kernarg_preload"]) == (56, 58)
