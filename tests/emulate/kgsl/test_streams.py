"""Streams of packets that were recorded on hardware, of Mesa's own tests: all are known here."""

import gzip
import struct
from collections import Counter

import pytest
from tests.emulate.judges import judge

from treadle.emulate.kgsl import tables
from treadle.emulate.kgsl.packets import packets

ADDRESS, STREAM, CONTENTS = 3, 6, 12  # kinds of sections
NAMES = {
    "fd-clouds": 630, "shadow": 630,
    "dEQP-VK.draw.indirect_draw.indexed.indirect_draw_count.triangle_list": 640,
}  # fmt: skip


UNNAMED = {"register 0x9990"}  # Mesa has no name for it either


def read(name):
    """The memory of a recording, by addresses, and the streams in it."""
    path = judge("mesa") / "src" / "freedreno" / ".gitlab-ci" / "traces" / f"{name}.rd.gz"
    data = gzip.decompress(path.read_bytes())
    blocks, streams, at, place = [], [], 0, (0, 0)
    while at + 8 <= len(data):
        kind, nbytes = struct.unpack_from("<II", data, at)
        at += 8
        if kind == nbytes == 0xFFFFFFFF:
            continue
        body = data[at : at + nbytes]
        at += nbytes
        if kind in (ADDRESS, STREAM):
            low, size, high = struct.unpack("<III", body[:12])
            place = low | high << 32, size
            if kind == STREAM:
                streams.append((list(blocks), *place))
        elif kind == CONTENTS:
            blocks.append((place[0], body))
    return streams


def words(blocks, address, count):
    for start, body in reversed(blocks):
        if start <= address and address + 4 * count <= start + len(body):
            at = address - start
            return struct.unpack(f"<{count}I", body[at : at + 4 * count])
    return None


def walk(blocks, address, count, seen):
    """Counts the packets of a stream and of those that it leads to, if they were recorded."""
    found = words(blocks, address, count)
    if found is None:
        return
    for packet in packets(found):
        if packet.opcode is None:
            for number in range(len(packet.words)):
                name = tables.register(packet.register + number)
                seen[name or f"register {packet.register + number:#x}"] += 1
            continue
        name = tables.opcode(packet.opcode)
        seen[name or f"opcode {packet.opcode:#x}"] += 1
        if name in ("CP_INDIRECT_BUFFER", "CP_INDIRECT_BUFFER_PFD", "CP_INDIRECT_BUFFER_CHAIN"):
            low, high, size = packet.words[:3]
            walk(blocks, low | high << 32, size & 0xFFFFF, seen)


@pytest.mark.parametrize("name", NAMES)
def test_all_packets_and_registers_of_a_recording_are_known(name):
    seen = Counter()
    for blocks, address, count in read(name):
        walk(blocks, address, count, seen)
    assert sum(seen.values()) > 300
    unknown = {key for key in seen if key.startswith(("register", "opcode"))}
    assert unknown <= UNNAMED
    assert seen["CP_EVENT_WRITE"] > 2
