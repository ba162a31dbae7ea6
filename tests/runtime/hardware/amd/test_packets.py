"""Packets as the runtime encodes them, decoded by AMD's tables field by field."""

import pytest

from treadle.emulate.kfd import tables
from treadle.emulate.kfd.chips import chip
from treadle.runtime.hardware.amd import sdma
from treadle.runtime.hardware.amd.generations import generation_of
from treadle.runtime.hardware.amd.pm4 import PM4, Register

ARCHS = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"]
ADDRESS = 0x7F12_3456_7898
LOW, HIGH = ADDRESS & 0xFFFFFFFF, ADDRESS >> 32


@pytest.fixture(params=ARCHS)
def gpu(request):
    return chip(request.param)


@pytest.fixture
def pm4(gpu):
    return PM4(generation_of(gpu.version))


def decoded(gpu, words, name):
    """The fields of one packet, whose header has to be right."""
    packets = tables.pm4(gpu.family)
    assert words[0] >> 30 == 3
    assert (words[0] >> 16 & 0x3FFF) + 2 == len(words)
    assert packets.names[words[0] >> 8 & 0xFF] == name
    assert words[0] & 0xFF == 0
    return packets.decode(name, words)


@pytest.mark.parametrize(
    ("register", "name"),
    [
        ("START_X", "COMPUTE_START_X"), ("NUM_THREAD_X", "COMPUTE_NUM_THREAD_X"),
        ("PGM_LO", "COMPUTE_PGM_LO"), ("SCRATCH_BASE_LO", "COMPUTE_DISPATCH_SCRATCH_BASE_LO"),
        ("PGM_RSRC1", "COMPUTE_PGM_RSRC1"), ("RESOURCE_LIMITS", "COMPUTE_RESOURCE_LIMITS"),
        ("TMPRING_SIZE", "COMPUTE_TMPRING_SIZE"), ("USER_DATA_0", "COMPUTE_USER_DATA_0"),
    ],
)  # fmt: skip
def test_a_register_has_the_address_of_amds_headers(gpu, register, name):
    known = tables.registers(gpu.registers, gpu.bases).names
    assert known[getattr(Register, register)] == name


def test_the_third_resource_register_depends_on_the_generation(gpu, pm4):
    known = tables.registers(gpu.registers, gpu.bases).names
    assert known[pm4.rsrc3] == "COMPUTE_PGM_RSRC3"


def test_registers_are_set_from_where_their_packet_counts(gpu, pm4):
    words = pm4.set(Register.PGM_RSRC1, [5, 6])
    first = tables.set_reg_start(gpu.family, "sh") + decoded(gpu, words, "set_sh_reg")["offset"]
    known = tables.registers(gpu.registers, gpu.bases).names
    assert [known[first], known[first + 1]] == ["COMPUTE_PGM_RSRC1", "COMPUTE_PGM_RSRC2"]
    assert words[2:] == [5, 6]


@pytest.mark.parametrize("is_wave32", [False, True])
def test_a_dispatch_starts_a_kernel_at_the_beginning_of_its_grid(gpu, pm4, is_wave32):
    given = decoded(gpu, pm4.dispatch((7, 8, 9), is_wave32), "dispatch_direct")
    assert [given[f"dim_{axis}"] for axis in "xyz"] == [7, 8, 9]
    registers = tables.registers(gpu.registers, gpu.bases)
    how = registers.decode("COMPUTE_DISPATCH_INITIATOR", given["initiator"])
    wanted = {"compute_shader_en", "force_start_at_000"} | ({"cs_w32_en"} if is_wave32 else set())
    if gpu.family != "gfx9":  # which has waves of 64 alone
        assert {name for name, value in how.items() if value} == wanted


def test_a_wait_is_for_zero_in_memory(gpu, pm4):
    given = decoded(gpu, pm4.wait(ADDRESS), "wait_reg_mem")
    assert (given["function"], given["mem_space"], given["operation"]) == (3, 1, 0)
    assert (given["addr_lo"] << 2, given["addr_hi"]) == (LOW, HIGH)
    assert (given["reference"], given["mask"]) == (0, 0xFFFFFFFF)


def test_a_signal_writes_caches_back_and_then_64_bits(gpu, pm4):
    words = pm4.signal(ADDRESS, 5 << 32 | 6, event=9)
    given = decoded(gpu, words, "release_mem")
    assert (given["event_type"], given["event_index"]) == (0x14, 5)
    assert (given["data_sel"], given["int_sel"], given["int_ctxid"]) == (2, 2, 9)
    assert (given["addr_lo"] << 2, given["addr_hi"]) == (LOW, HIGH)
    assert (given["data_lo"], given["data_hi"]) == (6, 5)
    if gpu.family == "gfx9":
        assert given["tc_wb_action_ena"] == given["tc_action_ena"] == 1
    else:
        for name in ("gl2_wb", "gl2_inv", "glv_inv", "gl1_inv"):
            assert tables.field(gpu.family, f"release_mem_gcr_{name}", words[1]) == 1


def test_a_signal_without_an_event_does_not_interrupt(gpu, pm4):
    assert decoded(gpu, pm4.signal(ADDRESS, 0), "release_mem")["int_sel"] == 0


def test_a_time_is_the_gpus_clock(gpu, pm4):
    assert decoded(gpu, pm4.signal_time(ADDRESS), "release_mem")["data_sel"] == 3
    given = decoded(gpu, pm4.write_time(ADDRESS), "copy_data")
    assert (given["src_sel"], given["dst_sel"], given["count_sel"]) == (9, 5, 1)
    assert (given["dst_lo"], given["dst_hi"]) == (LOW, HIGH)


_CACHES = {
    "gfx9": {
        "vectors": ["tcl1_action_ena"], "L2": ["tc_action_ena"],
        "scalars": ["sh_kcache_action_ena"], "instructions": ["sh_icache_action_ena"],
    },
    "gfx10-12": {
        "vectors": ["glv_inv", "gl1_inv"], "L2": ["gl2_inv"], "scalars": ["glk_inv"],
        "instructions": ["gli_inv"],
    },
}  # fmt: skip


def invalidated(gpu, words):
    """The caches that an ACQUIRE_MEM invalidates, by AMD's names of its bits."""
    start, word = ("cp_coher_cntl", words[1]) if gpu.family == "gfx9" else ("gcr_cntl", words[7])
    return {
        cache
        for cache, names in _CACHES[gpu.family].items()
        if all(tables.field(gpu.family, f"acquire_mem_{start}_{name}", word) for name in names)
    }


def test_an_acquire_covers_all_memory_and_all_caches_that_kernels_read(gpu, pm4):
    given = decoded(gpu, words := pm4.acquire(), "acquire_mem")
    assert (given["coher_size_lo"], given["coher_base_lo"]) == (0xFFFFFFFF, 0)
    assert invalidated(gpu, words) == {"scalars", "vectors", "L2", "instructions"}


def test_a_barrier_waits_for_kernels_and_invalidates_what_they_read(gpu, pm4):
    words = pm4.barrier()
    given = decoded(gpu, words[:2], "event_write")
    assert (given["event_type"], given["event_index"]) == (7, 4)
    assert decoded(gpu, words[2:], "acquire_mem")["coher_size_lo"] == 0xFFFFFFFF
    assert invalidated(gpu, words[2:]) >= {"scalars", "vectors"}


def test_an_indirect_buffer_is_valid_and_counted_in_words(gpu, pm4):
    given = decoded(gpu, pm4.indirect(ADDRESS, 1000), "indirect_buffer")
    assert (given["ib_base_lo"] << 2, given["ib_base_hi"]) == (LOW, HIGH)
    assert (given["ib_size"], given["valid"], given["chain"]) == (1000, 1, 0)


# -- SDMA -----------------------------------------------------------------------------------------


@pytest.fixture(params=["4.4", "5.2", "6.0"])
def packets(request):
    return tables.sdma(request.param)


def of_sdma(packets, words, name, op, sub_op=0):
    given = packets.decode(name, words)
    assert (packets.names[given["op"]], given["sub_op"]) == (op, sub_op)
    assert len(words) == packets.length(name)
    return given


def test_a_copy_has_its_bytes_less_one(packets):
    given = of_sdma(packets, sdma.copy(ADDRESS, 0x1122_3344_5566, 100), "COPY_LINEAR", "copy")
    assert given["count"] == 99
    assert (given["dst_addr_31_0"], given["dst_addr_63_32"]) == (LOW, HIGH)
    assert (given["src_addr_31_0"], given["src_addr_63_32"]) == (0x33445566, 0x1122)


def test_a_long_copy_is_as_many_packets_as_their_counts_allow(packets):
    words = sdma.copy(1 << 32, 2 << 32, (9 << 20) + 5)
    rows = [packets.decode("COPY_LINEAR", words[at : at + 7]) for at in range(0, len(words), 7)]
    sizes = [row["count"] + 1 for row in rows]
    assert sizes == [4 << 20, 4 << 20, (1 << 20) + 5]
    assert [row["dst_addr_31_0"] for row in rows] == [0, 4 << 20, 8 << 20]
    assert [row["src_addr_31_0"] for row in rows] == [0, 4 << 20, 8 << 20]


@pytest.mark.parametrize("is_uncached", [False, True])
def test_a_fence_has_address_and_data(packets, is_uncached):
    given = of_sdma(packets, sdma.fence(ADDRESS, 7, is_uncached), "FENCE", "fence")
    assert (given["addr_31_0"], given["addr_63_32"], given["data"]) == (LOW, HIGH, 7)
    assert given.get("mtype", 3 if is_uncached else 0) == (3 if is_uncached else 0)


def test_a_poll_is_for_zero_in_memory(packets):
    given = of_sdma(packets, sdma.poll(ADDRESS), "POLL_REGMEM", "poll_regmem")
    assert (given["func"], given["mem_poll"], given["value"], given["mask"]) == (3, 1, 0, 2**32 - 1)
    assert (given["addr_31_0"], given["addr_63_32"]) == (LOW, HIGH)
    assert given["retry_count"] == 0xFFF


def test_a_timestamp_is_the_global_one(packets):
    words = sdma.timestamp(ADDRESS)
    given = of_sdma(packets, words, "TIMESTAMP_GET_GLOBAL", "timestamp", 2)
    assert (given["write_addr_31_3"] << 3, given["write_addr_63_32"]) == (LOW, HIGH)


def test_a_trap_interrupts_for_its_event(packets):
    assert of_sdma(packets, sdma.trap(9), "TRAP", "trap")["int_context"] == 9
