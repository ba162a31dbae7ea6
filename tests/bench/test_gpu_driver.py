"""What looks at NVIDIA's kernel driver, tried on this process's calls and a resource manager."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gzip
import json
import os
import struct
import termios

import pytest

from treadle.bench.gpu import kernel_driver
from treadle.bench.gpu.driver_calls import Channel, Recorder, _inner, _name_and_size
from treadle.bench.gpu.findings import Findings, read_findings
from treadle.bench.gpu.interpose import imported, interposed, loaded_at, memory_at
from treadle.bench.gpu.kernel_driver import caller_of_ioctl


def test_a_call_is_recorded_with_its_structure_and_its_error():
    recorder, (read, write) = Recorder(), os.pipe()
    os.write(write, b"abcde")
    waiting = bytearray(4)
    with recorder.listening(caller_of_ioctl()):
        fcntl.ioctl(read, termios.FIONREAD, waiting)
        with pytest.raises(OSError, match="ioctl") as caught:
            fcntl.ioctl(read, 0xC0104629, bytearray(16))  # RM_FREE, of what is no driver's file
    fcntl.ioctl(read, termios.FIONREAD, waiting)
    os.close(read)
    os.close(write)
    assert struct.unpack("<i", waiting) == (5,)
    assert caught.value.errno == errno.ENOTTY
    names = [(call.name, call.result, call.errno) for call in recorder.calls]
    assert names == [("request 0x541b", 0, 0), ("RM_FREE", -1, errno.ENOTTY)]
    assert recorder.calls[1].before == "00" * 16
    assert recorder.calls[1].file.startswith("pipe:")


def test_the_table_is_as_it_was_behind_the_block():
    slots = imported(loaded_at(caller_of_ioctl()))["ioctl"]
    before = [memory_at(slot, 8) for slot in slots]
    recorder = Recorder()
    with recorder.listening(caller_of_ioctl()):
        assert [memory_at(slot, 8) for slot in slots] != before
    after = [memory_at(slot, 8) for slot in slots]
    assert after == before


def test_a_library_that_is_not_there_is_named():
    with pytest.raises(LookupError, match="libnothing"), interposed("libnothing", {"ioctl": None}):
        pass


def test_memory_that_nobody_has_is_none():
    assert memory_at(8, 4) is None
    assert memory_at(1 << 63, 4) is None
    kept = ctypes.create_string_buffer(b"kept", 4)
    assert memory_at(ctypes.addressof(kept), 4) == b"kept"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (struct.pack("<IIIIQII", 1, 2, 3, 0xC86F, 0x1000, 368, 0), (0x1000, 368)),
        (struct.pack("<IIIIQQIIII", 1, 2, 3, 0xC86F, 0x2000, 0, 56, 0, 0, 0), (0x2000, 56)),
    ],
)
def test_both_forms_of_an_allocation_name_their_parameters(form, expected):
    assert _inner(0x2B, form) == expected
    request = 3 << 30 | len(form) << 16 | ord("F") << 8 | 0x2B
    assert _name_and_size(request, True) == ("RM_ALLOC", len(form))


def test_commands_are_read_from_the_rings_of_channels(tmp_path):
    commands = (ctypes.c_uint32 * 3)(0x20018000, 0x1234, 0x5678)
    ring = (ctypes.c_uint64 * 8)()
    recorder = Recorder()
    alloc = struct.pack("<IIIIQII", 1, 2, 3, 0xC86F, 0, 0, 0)
    recorder._note_channel(alloc, struct.pack("<QQII", 0, ctypes.addressof(ring), 8, 0))
    recorder._note_channel(struct.pack("<IIIIQII", 1, 2, 3, 0x2080, 0, 0, 0), bytes(24))
    assert recorder.channels == [Channel(0xC86F, ctypes.addressof(ring), 8)]
    recorder.mark("open")
    low = ctypes.addressof(commands)
    is_low = low < 1 << 40  # an entry has 40 bits for an address
    ring[0] = (low & 0xFFFFFFFFFC) | 3 << 42
    recorder.mark("a launch")
    recorder.mark("nothing")
    (found,) = recorder.submissions
    assert (found.mark, found.entry, found.address) == ("a launch", 0, low & 0xFFFFFFFFFC)
    assert found.words == (list(commands) if is_low else None)
    recorder.write(str(tmp_path / "streams.json.gz"))
    with gzip.open(tmp_path / "streams.json.gz", "rt") as file:
        rows = json.load(file)
    assert rows["channels"] == [[0xC86F, ctypes.addressof(ring), 8]]
    assert [row["mark"] for row in rows["submissions"]] == ["a launch"]


class ResourceManager:
    """Objects by handle; a call that names one which is not there fails, as the driver's does."""

    def __init__(self, classes):
        self.classes, self.objects, self.freed = classes, {}, []

    def ioctl(self, fd, number, structure):
        if number == 201:
            return structure
        if number == 0x29:
            root, _, old, _ = struct.unpack("<IIII", structure)
            assert root in self.objects
            self.freed.append(old)
            return structure
        *words, address, size, status = struct.unpack("<IIIIQII", structure)
        if number == 0x2B:
            root, parent, _, kind = words
            if kind != 0x41 and (root not in self.objects or parent not in self.objects):
                return struct.pack("<IIIIQII", *words, address, size, 0x57)
            if kind == 0x80:
                assert size == 56
                assert struct.unpack("<II", ctypes.string_at(address, 8)) == (0, root)
            words[2] = 0xCAF00000 + len(self.objects)
            self.objects[words[2]] = kind
            return struct.pack("<IIIIQII", *words, address, size, status)
        assert number == 0x2A
        _, handle, command, _ = words
        assert self.objects[handle] == 0x80
        assert command == 0x800292
        room = size // 4 - 1
        found = self.classes[:room]
        listed = struct.pack(f"<{room + 1}I", len(found), *found, *[0] * (room - len(found)))
        ctypes.memmove(address, listed, size)
        return structure


@pytest.mark.parametrize(("version", "room"), [("580.159.03", 200), ("570.133.20", 100)])
def test_the_class_list_is_asked_for_as_the_driver_wants_it(monkeypatch, version, room):
    manager = ResourceManager([0xCBC0, 0xC86F, 0xC8B5, 0xC661])
    sizes = []
    monkeypatch.setattr(kernel_driver, "_ioctl", manager.ioctl)
    monkeypatch.setattr(
        kernel_driver, "_version",
        lambda: f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release",
    )  # fmt: skip
    client = kernel_driver._Client(3)
    control = client.control
    monkeypatch.setattr(
        client, "control", lambda h, c, params: sizes.append(len(params)) or control(h, c, params)
    )
    assert kernel_driver._classes(client) == [0xC661, 0xC86F, 0xC8B5, 0xCBC0]
    assert sizes == [4 * (room + 1)]
    client.close()
    assert manager.freed == [client.handle]


def test_a_refusal_of_the_driver_is_an_error_that_names_the_call(monkeypatch):
    manager = ResourceManager([])
    monkeypatch.setattr(kernel_driver, "_ioctl", manager.ioctl)
    client = kernel_driver._Client(3)
    with pytest.raises(OSError, match="RM_ALLOC of class 0x80: status 0x57"):
        client.alloc(0xDEAD, 0x80, 0, bytes(56))


def test_without_a_driver_each_look_is_skipped_by_name(tmp_path):
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("there is a driver")
    findings = Findings(str(tmp_path / "found"), 10.0, emulated=True)
    kernel_driver.run(findings, str(tmp_path / "record.npz"))
    found, _ = read_findings(str(tmp_path / "found"))
    assert {f.outcome for f in found} <= {"passed", "skipped"}
    assert any("no files /dev/nvidia*" in f.message for f in found)
    assert any("no libcuda" in f.message for f in found)
