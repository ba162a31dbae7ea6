"""libnvcuvid in memory: C functions that read the driver's structures at their published offsets.

    driver = FakeNvcuvid()
    decoder = NVVideoDecoder(cuvid=CuvidLibrary(driver), device="CPU")
    ...
    driver.check_empty()

It behaves as the driver does, at its least friendly: pictures that have been shown are the first
whose surfaces are written again, what is not mapped reads as poison, and no more frames are mapped
than were asked for. PyAV's decoder supplies the pixels. A call outside of the CUDA context that
the surfaces belong to fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
from ctypes import c_int, c_uint, c_uint64, c_void_p
from dataclasses import dataclass, field
from typing import Any

import av
import numpy as np

INVALID_VALUE, INVALID_CONTEXT, NO_SURFACE, UNKNOWN = 1, 201, 2, 999
SUCCESS = 2  # cuvidDecodeStatus_Success
POISON = 0xEE
PITCH = 256
_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)


class HostMemory:
    """Where an in-memory decoder without a GPU has its surfaces."""

    is_current, handle = True, 0

    def __init__(self):
        self.held = {}

    def alloc(self, nbytes, stream):
        data = np.empty(nbytes, np.uint8)
        self.held[data.ctypes.data] = data
        return data.ctypes.data

    def free(self, address, stream):
        del self.held[address]


@dataclass
class Decoder:
    info: dict[str, int]
    pictures: list[Any]  # planes by picture index; None is poison
    mapped: dict[int, int] = field(default_factory=dict)  # address -> picture index
    spare: list[int] = field(default_factory=list)

    @property
    def pitch(self):
        row = self.info["target_width"] * (2 if self.info["format"] else 1)
        return -(-row // PITCH) * PITCH

    @property
    def nbytes(self):
        return self.pitch * self.info["target_height"] * 3 // 2


@dataclass
class Parser:
    user: int
    sequence: Any
    decode: Any
    display: Any
    codec: Any
    units: list[bytes] = field(default_factory=list)
    timestamp: int = 0
    index: int = 0  # of pictures, in decoding order
    skips_leading: bool = False
    at_beginning: bool = True
    form: bytes = b""
    free: list[int] = field(default_factory=list)
    flying: dict[int, tuple[int, int, Decoder]] = field(default_factory=dict)


class FakeNvcuvid:
    """What `CuvidLibrary` takes for the loaded library.

    `caps` are the answers of cuvidGetDecoderCaps; `fail` names a call that fails from the n-th on.
    """

    def __init__(self, memory=None, min_surfaces=6, caps=None):
        self.memory = memory or HostMemory()
        self.min_surfaces = min_surfaces
        self.caps = {"supported": 1, "formats": 3, "max": (8192, 8192), "blocks": 1 << 18,
                     "min": (64, 64), **(caps or {})}  # fmt: skip
        self.objects: dict[int, Any] = {}
        self.fail: dict[str, tuple[int, int]] = {}  # call -> (calls that succeed, status)
        self.calls: dict[str, int] = {}
        self.packets: list[tuple[int, bytes, int]] = []
        self.failures: list[BaseException] = []
        self.statuses: list[int] = []  # of the next pictures that are mapped
        self.streams: set[int] = set()
        self.most_mapped = 0
        self.latest = threading.local()
        out, out_u64 = ctypes.POINTER(c_void_p), ctypes.POINTER(c_uint64)
        for name, arguments in {
            "cuvidGetDecoderCaps": [c_void_p],
            "cuvidCreateVideoParser": [out, c_void_p],
            "cuvidDestroyVideoParser": [c_void_p],
            "cuvidParseVideoData": [c_void_p, c_void_p],
            "cuvidCreateDecoder": [out, c_void_p],
            "cuvidDestroyDecoder": [c_void_p],
            "cuvidDecodePicture": [c_void_p, c_void_p],
            "cuvidMapVideoFrame64": [c_void_p, c_int, out_u64, ctypes.POINTER(c_uint), c_void_p],
            "cuvidUnmapVideoFrame64": [c_void_p, c_uint64],
            "cuvidGetDecodeStatus": [c_void_p, c_int, c_void_p],
            "cuvidCtxLockCreate": [out, c_void_p],
            "cuvidCtxLockDestroy": [c_void_p],
        }.items():
            setattr(self, name, ctypes.CFUNCTYPE(c_int, *arguments)(self._guarded(name)))

    def _guarded(self, name):
        method = getattr(self, "_" + name.removeprefix("cuvid"))

        def called(*arguments):
            count = self.calls[name] = self.calls.get(name, 0) + 1
            if name in self.fail and count > self.fail[name][0]:
                return self.fail[name][1]
            if not self.memory.is_current:
                return INVALID_CONTEXT
            try:
                return method(*arguments) or 0
            except BaseException as error:
                self.failures.append(error)
                return UNKNOWN

        return called

    def check_empty(self):
        """Nothing is left, and nothing went wrong in here."""
        assert not self.failures, self.failures
        assert not self.objects, f"not destroyed: {list(self.objects.values())}"

    def _new(self, out, thing):
        number = 0x1000 + sum(self.calls.values())
        self.objects[number] = thing
        out[0] = number

    # -- decoders -----------------------------------------------------------------------------

    def _GetDecoderCaps(self, address):
        caps = self.caps
        ctypes.memmove(address + 24, struct.pack(
            "<BBHIIIHH", caps["supported"], 1, caps["formats"], *caps["max"], caps["blocks"],
            *caps["min"]), 20)  # fmt: skip

    def _CreateDecoder(self, out, address):
        data = ctypes.string_at(address, 176)
        words = struct.unpack_from("<QQQiiQQQQQ", data)
        names = ("width", "height", "surfaces", "codec", "chroma", "flags", "depth")
        info = dict(zip(names, words, strict=False))
        info["area"] = struct.unpack_from("<4h", data, 80)
        info["format"], info["deinterlace"] = struct.unpack_from("<ii", data, 88)
        keys = ("target_width", "target_height", "outputs", "lock")
        info |= dict(zip(keys, struct.unpack_from("<QQQQ", data, 96), strict=True))
        _, _, right, bottom = info["area"]
        sound = (
            info["codec"] == 8 and info["chroma"] == 1 and 0 < info["surfaces"] <= 32
            and info["target_width"] % 2 == info["target_height"] % 2 == 0
            and right <= info["width"] and bottom <= info["height"]
            and info["format"] == (info["depth"] > 0)
            and (info["lock"] in self.objects) == bool(self.memory.handle)
        )  # fmt: skip
        if not sound:
            return INVALID_VALUE
        self._new(out, Decoder(info, [None] * info["surfaces"]))
        return 0

    def _DestroyDecoder(self, handle):
        decoder = self.objects.pop(handle)
        for address in (*decoder.mapped, *decoder.spare):
            self.memory.free(address, 0)

    def _DecodePicture(self, handle, address):
        index = struct.unpack("<i", ctypes.string_at(address + 8, 4))[0]
        self.objects[handle].pictures[index] = None
        self.latest.decoder = self.objects[handle]  # which parser's it is

    def _MapVideoFrame64(self, handle, index, pointer, pitch, address):
        decoder = self.objects[handle]
        if len(decoder.mapped) >= decoder.info["outputs"]:
            return NO_SURFACE
        self.streams.add(struct.unpack("<Q", ctypes.string_at(address + 56, 8))[0])
        place = decoder.spare.pop() if decoder.spare else self.memory.alloc(decoder.nbytes, 0)
        decoder.mapped[place] = index
        self.most_mapped = max(self.most_mapped, len(decoder.mapped))
        ctypes.memset(place, POISON, decoder.nbytes)
        if decoder.pictures[index] is not None:
            luma, chroma = decoder.pictures[index]
            for row, values in enumerate(luma):
                ctypes.memmove(place + row * decoder.pitch, values.ctypes.data, values.nbytes)
            below = place + decoder.pitch * decoder.info["target_height"]
            for row, values in enumerate(chroma):
                ctypes.memmove(below + row * decoder.pitch, values.ctypes.data, values.nbytes)
        pointer[0], pitch[0] = place, decoder.pitch
        return 0

    def _UnmapVideoFrame64(self, handle, pointer):
        decoder = self.objects[handle]
        if pointer not in decoder.mapped:
            return INVALID_VALUE
        del decoder.mapped[pointer]
        decoder.spare.append(pointer)
        ctypes.memset(pointer, POISON, decoder.nbytes)
        return 0

    def _GetDecodeStatus(self, handle, index, address):
        assert index in self.objects[handle].mapped.values()  # it is said of finished ones
        found = self.statuses.pop(0) if self.statuses else SUCCESS
        ctypes.memmove(address, struct.pack("<i", found), 4)

    def _CtxLockCreate(self, out, context):
        if (context or 0) != self.memory.handle:
            return INVALID_CONTEXT
        self._new(out, "lock")
        return 0

    def _CtxLockDestroy(self, handle):
        return 0 if self.objects.pop(handle, None) == "lock" else INVALID_VALUE

    # -- the parser -----------------------------------------------------------------------------

    def _CreateVideoParser(self, out, address):
        data = ctypes.string_at(address, 136)
        codec, surfaces, _, _, _, bits = struct.unpack_from("<iIIIII", data)
        if codec != 8 or not surfaces or bits:
            return INVALID_VALUE
        user, *callbacks = struct.unpack_from("<4Q", data, 40)
        made = av.CodecContext.create("hevc", "r")
        made.thread_count, made.options = 1, {"threads": "1"}
        self._new(out, Parser(user, *map(_CALLBACK, callbacks), made))
        return 0

    def _DestroyVideoParser(self, handle):
        del self.objects[handle]

    def _ParseVideoData(self, handle, address):
        parser = self.objects[handle]
        flags, size, payload, timestamp = struct.unpack("<QQQq", ctypes.string_at(address, 32))
        data = ctypes.string_at(payload, size) if size else b""
        self.packets.append((flags, data, timestamp))
        for unit in data.split(b"\0\0\1"):
            unit = unit.rstrip(b"\0")
            if len(unit) >= 3 and not self._unit(parser, unit, timestamp if flags & 2 else 0):
                return UNKNOWN
        if flags & 9 and not self._picture(parser):
            return UNKNOWN
        if flags & 1:
            parser.at_beginning = True
            with contextlib.suppress(av.error.EOFError, av.error.InvalidDataError):
                if not all(self._display(parser, frame) for frame in parser.codec.decode(None)):
                    return UNKNOWN
            parser.codec.flush_buffers()
        return 0

    def _unit(self, parser, unit, timestamp):
        """Adds one unit; a first slice and what precedes one end the picture before."""
        kind = unit[0] >> 1 & 0x3F
        has_slices = any(one[0] >> 1 & 0x3F <= 31 for one in parser.units)
        starts = unit[2] & 0x80 if kind <= 31 else kind in (32, 33, 34, 35, 39)
        if starts and has_slices and not self._picture(parser):
            return False
        if kind <= 31 and unit[2] & 0x80:
            parser.timestamp = timestamp
        parser.units.append(unit)
        return True

    def _picture(self, parser):
        """Decodes the picture that is complete; what it makes ready to show is shown first."""
        units, parser.units = parser.units, []
        slices = [one for one in units if one[0] >> 1 & 0x3F <= 31]
        if not slices:
            parser.units = units  # parameter sets go with the next picture
            return True
        kind = slices[0][0] >> 1 & 0x3F
        if 16 <= kind <= 23:
            parser.skips_leading = kind < 21 or parser.at_beginning
            parser.at_beginning = False
        if kind in (8, 9) and parser.skips_leading:
            return True
        packet = av.Packet(b"".join(b"\0\0\0\1" + one for one in units))
        packet.pts = packet.dts = parser.index
        try:
            frames = parser.codec.decode(packet)
        except av.error.FFmpegError:
            return True  # as the driver, which skips what it cannot read
        if not parser.codec.width:
            return True
        number, parser.index = parser.index, parser.index + 1
        own = [frame for frame in frames if frame.pts == number]
        if not all(self._display(parser, frame) for frame in frames if frame.pts != number):
            return False
        if not self._sequence(parser):
            return False
        if not parser.free:
            raise AssertionError("the decoder asked for too few surfaces")
        surface = parser.free.pop()
        data = b"".join(slices)
        params = bytearray(4280)
        struct.pack_into("<i", params, 8, surface)
        struct.pack_into("<I", params, 24, len(data))
        if not parser.decode(
            parser.user, ctypes.addressof((ctypes.c_char * 4280).from_buffer(params))
        ):
            return False
        parser.flying[number] = surface, parser.timestamp, self.latest.decoder
        return all(self._display(parser, frame) for frame in own)

    def _sequence(self, parser):
        codec = parser.codec
        pixels = codec.format
        depth, chroma = pixels.components[0].bits - 8, _chroma_format(pixels)
        signal = bytes([5 | (codec.color_range == 2) << 3, 2, 2, codec.colorspace])
        form = struct.pack(
            "<iIIBBBBIIiiiiiIii4sI", 8, 25, 1, 1, depth, depth, self.min_surfaces,
            codec.coded_width, codec.coded_height, 0, 0, codec.width, codec.height, chroma, 0, 1,
            1, signal, 0,
        )  # fmt: skip
        if form == parser.form:
            return True
        held = ctypes.create_string_buffer(form, 64)
        count = parser.sequence(parser.user, ctypes.addressof(held))
        if count:
            parser.form = form
            parser.free = list(range(count if count > 1 else self.min_surfaces))
        return bool(count)

    def _display(self, parser, frame):
        if frame.pts not in parser.flying:  # of a picture that FFmpeg called damaged
            return True
        surface, timestamp, decoder = parser.flying.pop(frame.pts)
        decoder.pictures[surface] = _planes(frame)
        info = bytearray(struct.pack("<iiiiq", surface, 1, 0, 0, timestamp))
        held = (ctypes.c_char * 24).from_buffer(info)
        shown = parser.display(parser.user, ctypes.addressof(held))
        info[:] = b"\xee" * 24  # the driver's memory, which it uses again
        parser.free.append(surface)
        return bool(shown)


def _chroma_format(pixels):
    """The number of H.265 and of cudaVideoChromaFormat for a format of PyAV's."""
    if len(pixels.components) == 1:
        return 0
    return {(1, 1): 1, (1, 2): 2, (2, 2): 3}[pixels.chroma_width(2), pixels.chroma_height(2)]


def _planes(frame):
    """NV12 or P016 of a frame of PyAV's: luma, and pairs of chroma."""
    depth = frame.format.components[0].bits
    found = []
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
        values = rows[:, : plane.width * (2 if depth > 8 else 1)].copy()
        found.append(values.view("<u2") << (16 - depth) if depth > 8 else values)
    luma, u, v = found
    return luma, np.stack([u, v], -1).reshape(u.shape[0], -1)
