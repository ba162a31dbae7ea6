"""Mesa's assembler, in processes of its own: where an assertion of it fails, it ends them.

    assemble(["add.f r0.x, r0.y, c1.x", "nop"])  ->  [0x4010000010040001, 0]

A text that Mesa's parser rejects becomes None, one that ends its process becomes `ENDED`.
"""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from tests.emulate.judges import judge

from treadle.compile import mesa_nir, nir
from treadle.target import adreno_chip

__all__ = ["ENDED", "assemble"]

ROOT = Path(__file__).parents[3]
ENDED = "ended"
_REJECTED = "rejected"
_PLAIN = "mov.f32f32 r0.x, r0.y"
_INFO_BYTES = 4096  # ir3_kernel_info, which is about 100 bytes


def assemble(texts, chip="a630"):
    """The first word of what each text becomes; None where it is rejected; or ENDED."""
    texts = list(texts)
    library = str(judge("tinymesa") / "tinymesa" / "libtinymesa.so")
    done = subprocess.run(
        [sys.executable, "-m", __name__, chip],
        input="\n".join(texts), env=os.environ | {"MESA_LIBRARY": library},
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert len(found) == len(texts), done.stderr
    told = {ENDED: ENDED, _REJECTED: None}
    return [told[one] if one in told else int(one, 16) for one in found]


class _Assembler:
    """A parser of text and an encoder, both Mesa's."""

    def __init__(self, chip):
        self._mesa = nir.library()
        self._compiler, _ = mesa_nir._compiler(adreno_chip(chip))
        self._mesa.ir3_parse.restype = ctypes.c_void_p
        self._libc = ctypes.CDLL(None)
        self._libc.fmemopen.restype = ctypes.c_void_p

    def word(self, text):
        """The first word of a text, None where the parser rejects it."""
        found = self._first(text)
        if found is None:
            self._first(_PLAIN)  # flags that were read before the mistake are kept until now
        return found

    def _first(self, text):
        mesa, data = self._mesa, text.encode() + b"\n"
        variant = mesa.rzalloc_size(ctypes.c_void_p(), ctypes.c_size_t(mesa_nir._VARIANT))
        try:
            state = mesa.rzalloc_size(ctypes.c_void_p(variant), ctypes.c_size_t(mesa_nir._STATE))
            mesa_nir._word(variant + mesa_nir._VARIANT_TYPE).value = mesa_nir._COMPUTE
            mesa_nir._pointer(variant + mesa_nir._VARIANT_COMPILER).value = self._compiler
            mesa_nir._pointer(variant + mesa_nir._CONST_STATE).value = state
            ctypes.c_bool.from_address(variant + mesa_nir._MERGED).value = True
            info = ctypes.create_string_buffer(_INFO_BYTES)
            file = self._libc.fmemopen(data, ctypes.c_size_t(len(data)), b"r")
            parsed = mesa.ir3_parse(ctypes.c_void_p(variant), info, ctypes.c_void_p(file))
            self._libc.fclose(ctypes.c_void_p(file))
            if not parsed:
                return None
            code = mesa.ir3_shader_assemble(ctypes.c_void_p(variant))
            return ctypes.c_uint64.from_address(code).value if code else None
        finally:
            mesa.ralloc_free(ctypes.c_void_p(variant))


def _work(assembler, texts, pipe):
    """In a process of its own: a line for each text, until Mesa ends it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # mistakes are told of there
    for text in texts:
        word = assembler.word(text)
        os.write(pipe, f"{_REJECTED if word is None else hex(word)}\n".encode())
    os._exit(0)


def main():
    """Texts from the input, a word of each to the output."""
    assembler = _Assembler(sys.argv[1])
    texts = sys.stdin.read().splitlines()
    found = []
    while len(found) < len(texts):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            _work(assembler, texts[len(found) :], writer)
        os.close(writer)
        with os.fdopen(reader) as lines:
            found += lines.read().splitlines()
        if os.waitpid(child, 0)[1]:
            found.append(ENDED)
    print("\n".join(found))


if __name__ == "__main__":
    main()
