"""Images through Mesa's compiler: the bits that ours gives, on an emulated Adreno."""

import numpy as np
import pytest
from tests.emulate.judges import judge

from treadle import Context, Tensor, dtypes
from treadle.compile.mesa_ir3 import MesaIR3Compiler
from treadle.engine.devices import Device
from treadle.errors import InternalError
from treadle.ir3_object import unpack
from treadle.target import adreno_target

OURS, MESAS = "QCOM:0:ADRENO", "QCOM:0:IR3"


@pytest.fixture(autouse=True)
def mesa(monkeypatch):
    """Mesa's library, where `.ci/judges` puts it."""
    path = judge("tinymesa") / "tinymesa" / "libtinymesa.so"
    monkeypatch.setenv("MESA_LIBRARY", str(path))


@pytest.fixture
def compiled(monkeypatch):
    """What Mesa's compiler makes, kernel by kernel."""
    found, real = [], MesaIR3Compiler.compile

    def compile_(self, source):
        made = real(self, source)
        found.extend(unpack(made))
        return made

    monkeypatch.setattr(MesaIR3Compiler, "compile", compile_)
    return found


def array(*shape):
    rng = np.random.default_rng(shape)
    return rng.standard_normal(shape).astype(np.float32)


def stored(values, device):
    """Values that a kernel of the program writes, to a texture where IMAGE=1 says so."""
    return (Tensor(values, device=device) + 1).contiguous()


def product(device):
    return stored(array(32, 64), device) @ stored(array(64, 32), device)


def convolution(device):
    images, weights = stored(array(1, 4, 8, 8), device), stored(array(8, 4, 3, 3), device)
    return images.conv2d(weights, padding=1).relu()


def halves(device):
    x = Tensor(array(16, 64), device=device).cast(dtypes.imageh((16, 16))).realize()
    return (x * 2).cast(dtypes.imageh((4, 64))).realize().reshape(64, 16).flip(0).T


def two_orders(device):
    """The second of two images is read first, and some texels of neither."""
    x, y = stored(array(8, 32), device), stored(array(8, 32) * 2, device)
    return y.flip(1) * x + x.pad(((1, 0), (0, 0)))[:8]


def in_place(device):
    x = Tensor(array(8, 32), device=device).cast(dtypes.imagef((8, 8))).realize()
    x.assign((x * 2 + 1).cast(dtypes.imagef((8, 8)))).realize()
    return x + 0


PROGRAMS = [product, convolution, halves, two_orders, in_place]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_a_program_gives_the_bits_that_ours_gives(program, compiled):
    with Context(IMAGE=1, CACHE=0):
        ours, theirs = (program(device).realize().numpy() for device in (OURS, MESAS))
    assert any(code.images for code in compiled), "no kernel had an image"
    assert ours.any()
    assert ours.tobytes() == theirs.tobytes()


HEAD = "kernel k work_items=64 buffers=4 variables=0 shared=0\n"
TEXELS = """
mov.u32u32 %1, r0.x
vector %2 2
mov.u32u32 %2.0, %1
mov.u32u32 %2.1, 0x0
vector %3 4
isam.f32 %3:4, %2:2, 1
vector %4 4
isam.f32 %4:4, %2:2, 2
vector %5 4
add.f %5.0, %3.0, %4.0
add.f %5.1, %3.1, %4.1
add.f %5.2, %3.2, %4.2
add.f %5.3, %3.3, %4.3
stib.b.f32 %5:4, %2:2, 0
"""


def memory(*kinds):
    return "".join(
        f"memory buffer={n} {kind} height=1 width={64 + n} bits=32\n"
        for n, kind in enumerate(kinds)
    )


def test_textures_have_the_numbers_that_mesa_gives_them():
    """Those that nobody reads have none."""
    text = HEAD + memory("texture=0", "texture=2", "image=0", "texture=1") + TEXELS
    (code,) = unpack(MesaIR3Compiler(adreno_target("a630")).compile(text))
    assert {(one.buffer, one.is_texture, one.number, one.width) for one in code.images} == {
        (3, True, 0, 67), (1, True, 1, 65), (2, False, 0, 66),
    }  # fmt: skip


def test_more_images_than_mesa_counts_are_refused():
    text = HEAD.replace("=4", "=33") + memory(*(f"image={n}" for n in range(33))) + TEXELS
    with pytest.raises(InternalError, match="k takes 33 images: Mesa counts to 32"):
        MesaIR3Compiler(adreno_target("a630")).compile(text)


def test_kernels_for_mesa_have_no_more_buffers_than_it_counts_images():
    assert Device[MESAS].target.max_buffers == 32
    assert Device[OURS].target.max_buffers > 32
