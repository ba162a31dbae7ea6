"""Mesa as a library (`.ci/judges` fetches it): its disassembler, and what its operations mean."""

import ctypes
import functools
import struct

import numpy as np
from tests.emulate.judges import judge


class _Options(ctypes.Structure):
    """How words are disassembled: isa_decode_options of Mesa 25.2."""

    _fields_ = (
        ("gpu_id", ctypes.c_uint32), ("show_errors", ctypes.c_bool),
        ("max_errors", ctypes.c_uint), ("branch_labels", ctypes.c_bool), ("stop", ctypes.c_bool),
        *((name, ctypes.c_void_p) for name in (
            "cbdata", "field", "field_print", "pre_instr", "post_instr", "no_match",
        )),
        ("entrypoint_count", ctypes.c_uint), ("entrypoints", ctypes.c_void_p),
    )  # fmt: skip


@functools.cache
def _library():
    return ctypes.CDLL(str(judge("tinymesa") / "tinymesa" / "libtinymesa.so"))


@functools.cache
def _libc():
    libc = ctypes.CDLL(None)
    libc.open_memstream.restype = ctypes.c_void_p
    libc.open_memstream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    libc.fclose.argtypes = libc.free.argtypes = [ctypes.c_void_p]
    return libc


def disassemble(words, gpu=630):
    """The text of each word, and behind it, if something is wrong with it, what that is."""
    words = list(words)
    library, libc = _library(), _libc()
    code = struct.pack(f"<{len(words)}Q", *words)
    texts = []
    options = _Options(gpu_id=gpu, show_errors=True)
    for at in range(0, len(code), 8):
        buffer, size = ctypes.c_void_p(), ctypes.c_size_t()
        stream = libc.open_memstream(ctypes.byref(buffer), ctypes.byref(size))
        word = ctypes.create_string_buffer(code[at : at + 8])
        library.ir3_isa_disasm(word, 8, ctypes.c_void_p(stream), ctypes.byref(options))
        libc.fclose(stream)
        texts.append(ctypes.string_at(buffer.value, size.value).decode().strip())
        libc.free(buffer)
    return texts


_STRIDE = 56  # bytes of nir_op_info, which begins with the operation's name
_AT_ONCE = 16  # components of a value


@functools.cache
def _numbers():
    """The number of each operation by its name."""
    first = ctypes.addressof(ctypes.c_char.in_dll(_library(), "nir_op_infos"))
    found = {}
    for number in range(489):
        place = ctypes.c_void_p.from_address(first + number * _STRIDE).value
        found[ctypes.string_at(place).decode()] = number
    return found


def evaluate(name, bits, *inputs):
    """What Mesa folds the operation of constants to: `bits` is the size of what has no own size.

    Inputs and results are arrays of the bits of the values, as uint64.
    """
    library, number = _library(), _numbers()[name]
    count = len(inputs[0])
    result = np.zeros(count, np.uint64)
    padded = [np.resize(np.asarray(a, np.uint64), -(-count // _AT_ONCE) * _AT_ONCE) for a in inputs]
    for at in range(0, count, _AT_ONCE):
        parts = [np.ascontiguousarray(a[at : at + _AT_ONCE]) for a in padded]
        sources = (ctypes.c_void_p * len(parts))(*(part.ctypes.data for part in parts))
        made = np.zeros(_AT_ONCE, np.uint64)
        library.nir_eval_const_opcode(
            number, ctypes.c_void_p(made.ctypes.data), _AT_ONCE, bits, sources, 0
        )
        result[at : at + _AT_ONCE] = made[: count - at]
    return result
