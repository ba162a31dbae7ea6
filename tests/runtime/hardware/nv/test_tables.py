"""Commands and meta data that the runtime encodes, decoded by NVIDIA's own tables."""

import pytest

from treadle.emulate.nv import chips, tables
from treadle.runtime.hardware.nv import classes, methods, qmd

GENERATIONS = list(classes._GENERATIONS.values())
IDS = [one.arch for one in GENERATIONS]
HIGH, LOW = 0x12, 0x34567890
ADDRESS = HIGH << 32 | LOW


def decoded(words, kind, number):
    """The methods of some words, with their values, by the class header."""
    found, at = {}, 0
    table = tables.methods(kind, number)
    while at < len(words):
        header = words[at]
        assert header >> 29 == 1
        count, first = header >> 16 & 0x1FFF, (header & 0xFFF) << 2
        for n in range(count):
            method = table[first + 4 * n]
            found[method.name] = method.decode(words[at + 1 + n])
        at += 1 + count
    return found


@pytest.mark.parametrize("generation", GENERATIONS, ids=IDS)
def test_classes_are_those_that_the_driver_lists_for_the_chip(generation):
    chip = chips.chip(generation.arch)
    assert generation.compute == tables.number(chip.compute)
    assert generation.channel == tables.number(chip.channel)
    assert generation.copy == tables.number(chip.copy)
    assert generation.usermode == tables.number(chip.usermode)
    assert classes.generation_of(chip.sm_version, chip.classes, "NV") is generation


def test_a_release_writes_the_payload_and_the_time_behind_all_work():
    found = decoded(methods.release(ADDRESS, 5), "host", 0xC56F)
    assert found["SEM_ADDR_LO"] == {"OFFSET": LOW >> 2}
    assert found["SEM_ADDR_HI"] == {"OFFSET": HIGH}
    assert found["SEM_PAYLOAD_LO"] == {"PAYLOAD": 5}
    wanted = {"OPERATION": 1, "RELEASE_WFI": 1, "PAYLOAD_SIZE": 1, "RELEASE_TIMESTAMP": 1}
    assert {name: value for name, value in found["SEM_EXECUTE"].items() if value} == wanted


def test_an_acquire_waits_for_equality_and_lets_others_run():
    found = decoded(methods.acquire(ADDRESS, 0), "host", 0xC56F)["SEM_EXECUTE"]
    assert {name: value for name, value in found.items() if value} == {
        "ACQUIRE_SWITCH_TSG": 1, "PAYLOAD_SIZE": 1,
    }  # fmt: skip


@pytest.mark.parametrize("generation", GENERATIONS, ids=IDS)
def test_a_copy_is_of_plain_lines_and_flushed(generation):
    found = decoded(methods.copy(ADDRESS, ADDRESS + 1, 77), "copy", generation.copy)
    assert found["OFFSET_OUT_UPPER"] == {"UPPER": HIGH}
    assert found["OFFSET_OUT_LOWER"] == {"VALUE": LOW}
    assert found["OFFSET_IN_LOWER"] == {"VALUE": LOW + 1}
    assert found["LINE_LENGTH_IN"] == {"VALUE": 77}
    assert {name: value for name, value in found["LAUNCH_DMA"].items() if value} == {
        "DATA_TRANSFER_TYPE": 2, "FLUSH_ENABLE": 1, "SRC_MEMORY_LAYOUT": 1, "DST_MEMORY_LAYOUT": 1,
    }  # fmt: skip


@pytest.mark.parametrize("generation", GENERATIONS, ids=IDS)
def test_methods_of_the_compute_class_are_called_as_its_header_does(generation):
    number = generation.compute
    found = decoded(methods.launch(LOW << 8), "compute", number)
    assert found["SEND_PCAS_A"] == {"QMD_ADDRESS_SHIFTED8": LOW}
    assert found["SEND_SIGNALING_PCAS2_B"]["PCAS_ACTION"] == 9
    found = decoded(methods.windows(ADDRESS, ADDRESS + 16), "compute", number)
    assert found["SET_SHADER_LOCAL_MEMORY_WINDOW_A"] == {"BASE_ADDRESS_UPPER": HIGH}
    assert found["SET_SHADER_LOCAL_MEMORY_WINDOW_B"] == {"BASE_ADDRESS": LOW}
    assert found["SET_SHADER_SHARED_MEMORY_WINDOW_B"] == {"BASE_ADDRESS": LOW + 16}
    found = decoded(methods.local_memory(ADDRESS, ADDRESS, 64), "compute", number)
    assert found["SET_SHADER_LOCAL_MEMORY_A"] == {"ADDRESS_UPPER": HIGH}
    assert found["SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A"] == {"SIZE_UPPER": HIGH}
    assert found["SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C"]["MAX_SM_COUNT"] == 64
    assert "WAIT_FOR_IDLE" in decoded(methods.wait_for_idle(), "compute", number)
    found = decoded(methods.invalidate_caches(), "compute", number)
    assert set(found["INVALIDATE_SHADER_CACHES_NO_WFI"].values()) == {1}


# The runtime has one name for a field in all versions; these are the headers' own.
NAMES = {
    "3.0": {
        "GRID_WIDTH": "CTA_RASTER_WIDTH", "GRID_HEIGHT": "CTA_RASTER_HEIGHT",
        "GRID_DEPTH": "CTA_RASTER_DEPTH", "QMD_MINOR_VERSION": "QMD_VERSION",
        "REGISTER_COUNT": "REGISTER_COUNT_V",
    },
    "4.0": {
        "DEPENDENT_QMD0_ENABLE": "DEPENDENT_QMD_ENABLE[0]",
        "DEPENDENT_QMD0_ACTION": "DEPENDENT_QMD_ACTION[0]",
        "DEPENDENT_QMD0_PREFETCH": "DEPENDENT_QMD_PREFETCH[0]",
    },
    "5.0": {
        "PROGRAM_ADDRESS_LOWER": "PROGRAM_ADDRESS_LOWER_SHIFTED4",
        "PROGRAM_ADDRESS_UPPER": "PROGRAM_ADDRESS_UPPER_SHIFTED4",
        "SHARED_MEMORY_SIZE": "SHARED_MEMORY_SIZE_SHIFTED7",
        "SHADER_LOCAL_MEMORY_LOW_SIZE": "SHADER_LOCAL_MEMORY_LOW_SIZE_SHIFTED4",
        "SHADER_LOCAL_MEMORY_HIGH_SIZE": "SHADER_LOCAL_MEMORY_HIGH_SIZE_SHIFTED4",
    },
}  # fmt: skip
BANKS = {
    "VALID": "CONSTANT_BUFFER_VALID", "INVALIDATE": "CONSTANT_BUFFER_INVALIDATE",
    "LOWER": "CONSTANT_BUFFER_ADDR_LOWER", "UPPER": "CONSTANT_BUFFER_ADDR_UPPER",
    "SIZE_SHIFTED4": "CONSTANT_BUFFER_SIZE_SHIFTED4",
}  # fmt: skip


@pytest.mark.parametrize("version", sorted(qmd.LAYOUTS))
def test_fields_of_meta_data_are_where_the_header_has_them(version):
    ours, theirs = qmd.LAYOUTS[version], tables.qmd(version)
    assert ours.nbytes == theirs.nbytes
    for name, place in ours.fields.items():
        assert theirs.fields[NAMES[version].get(name, name)] == place, name
    shifted = "_SHIFTED6" if ours.bank_shift else ""
    for name, (low, high, step) in ours.banks.items():
        for n in range(8):
            whole = BANKS[name] + (shifted if name in ("LOWER", "UPPER") else "")
            assert theirs.fields[f"{whole}[{n}]"] == (low + n * step, high + n * step), name


@pytest.mark.parametrize("version", sorted(qmd.LAYOUTS))
def test_a_value_that_a_field_does_not_hold_is_refused(version):
    with pytest.raises(ValueError, match="REGISTER_COUNT is 0x200, and has 9 bits"):
        qmd.LAYOUTS[version].put(0, "REGISTER_COUNT", 512)
