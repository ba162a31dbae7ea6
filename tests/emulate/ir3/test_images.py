"""Images: isam, ldib and stib at whole coordinates, over lines at a pitch."""

import numpy as np
import pytest
from tests.emulate.ir3.conftest import END, NOPS
from tests.emulate.ir3.words import TYPES, c, immed, mov, move, r, word

from treadle.emulate.ir3.execute import IR3Program
from treadle.emulate.ir3.program import Kernel
from treadle.emulate.kgsl.images import Format, Image
from treadle.emulate.simt.execute import EmulationFault
from treadle.emulate.simt.machine import Region

R1, R2, R3, R5 = 4, 8, 12, 20
WIDTH, HEIGHT = 6, 5
SYNC = word("nop", SS=1, SY=1)
# x and y of a work item of 8x8.
PLACE = [
    word("and.b", DST=R1, FULL=1, SRC1=r(0), SRC2=immed(7), NOP=3),
    word("shr.b", DST=R1 + 1, FULL=1, SRC1=r(0), SRC2=immed(3), NOP=3), NOPS,
]  # fmt: skip


def isam(target, place, kind, mask=15, **more):
    return word("isam", DST=target, SRC1=place, FULL=1, WRMASK=mask, TYPE=TYPES[kind], **more)


def ldib(target, place, kind, count=4):
    return word("ldib.b", SRC1=target, SRC2=place, TYPE=TYPES[kind], TYPED=1, D_MINUS_ONE=1,
                TYPE_SIZE_MINUS_ONE=count - 1)  # fmt: skip


def stib(source, place, kind, count=4, **more):
    fields = {"TYPED": 1, "D_MINUS_ONE": 1, "TYPE_SIZE_MINUS_ONE": count - 1} | more
    return word("stib.b", SRC1=source, SRC2=place, TYPE=TYPES[kind], **fields)


def store_row(source):
    """Stores four full registers for each work item from c0 on."""
    return [
        word("shl.b", DST=R2, FULL=1, SRC1=r(0), SRC2=immed(4), NOP=3), SYNC,
        word("add.u", DST=R3, FULL=1, SRC1=c(0), SRC2=r(R2), NOP=3),
        mov(R3 + 1, 1, form="mov-const"), NOPS,
        word("stg", SRC1=R3, SRC3=source, TYPE=3, SIZE=4), END,
    ]  # fmt: skip


class Picture:
    """An image of random numbers, with lines at a pitch of 256 bytes."""

    def __init__(self, bits=32, count=4, seed=0):
        dtype = np.float32 if bits == 32 else np.float16
        self.memory = np.zeros((HEIGHT, 256 // (bits // 8)), dtype)
        self.pixels = self.memory[:, : WIDTH * count].reshape(HEIGHT, WIDTH, count)
        numbers = np.random.default_rng(seed).standard_normal((HEIGHT, WIDTH * count))
        self.memory[:, : WIDTH * count] = numbers
        self.pixels = self.memory[:, : WIDTH * count].reshape(HEIGHT, WIDTH, count)
        self.image = Image(self.memory.ctypes.data, WIDTH, HEIGHT, 256, Format(bits, count))

    def seen(self):
        """What 8x8 work items see: zeros outside."""
        found = np.zeros((8, 8, 4), np.float32)
        found[:HEIGHT, :WIDTH, 3] = 1
        found[:HEIGHT, :WIDTH, : self.pixels.shape[2]] = self.pixels
        return found


def run(machine, words, textures=(), images=(), wave=64, samplers=1):
    out = np.zeros((8, 8, 4), np.float32)
    kernel = Kernel(
        tuple(words), wave, None, 0, constants=2,
        textures=tuple(p.image.format for p in textures),
        images=tuple(p.image.format for p in images), samplers=samplers,
    )  # fmt: skip
    pictures = [*textures, *images]
    memory = [Region(a.ctypes.data, a.nbytes) for a in (out, *(p.memory for p in pictures))]
    address = out.ctypes.data
    IR3Program(kernel, machine._compile).launch(
        (1, 1, 1), (64, 1, 1), [address & 0xFFFFFFFF, address >> 32], memory,
        [p.image for p in pictures],
    )  # fmt: skip
    return out


@pytest.mark.parametrize("wave", [64, 128])
@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("is_texture", [True, False])
def test_images_are_read_and_are_zero_outside(machine, bits, count, is_texture, wave):
    picture = Picture(bits, count)
    read = isam(R5, R1, "f32") if is_texture else ldib(R5, R1, "f32")
    words = [*PLACE, read, SYNC, *store_row(R5)]
    given = {"textures": [picture]} if is_texture else {"images": [picture]}
    assert np.array_equal(run(machine, words, **given, wave=wave), picture.seen())


def test_images_are_read_into_half_registers(machine):
    picture = Picture(32)
    whole = [mov(R5 + 4 + n, 2 * R5 + n, "f16f32") for n in range(4)]
    words = [*PLACE, isam(2 * R5, R1, "f16"), SYNC, *whole, NOPS, *store_row(R5 + 4)]
    found = run(machine, words, [picture])
    assert np.array_equal(found, picture.seen().astype(np.float16))


def test_a_mask_chooses_components(machine):
    picture = Picture()
    fill = [move(R5 + n, 0x3F800000) for n in range(4)]
    words = [*PLACE, *fill, isam(R5, R1, "f32", 0b1010), SYNC, *store_row(R5)]
    expected = picture.seen()
    expected[..., [0, 2]] = 1
    assert np.array_equal(run(machine, words, [picture]), expected)


@pytest.mark.parametrize("bits", [32, 16])
def test_images_are_written_inside(machine, bits):
    source, target = Picture(seed=1), Picture(bits, seed=2)
    words = [*PLACE, isam(R5, R1, "f32"), SYNC, stib(R5, R1, "f32"), SYNC, END]
    before = target.memory.copy()
    run(machine, words, [source], [target])
    assert np.array_equal(target.pixels, source.pixels.astype(target.pixels.dtype))
    assert np.array_equal(target.memory[:, 4 * WIDTH :], before[:, 4 * WIDTH :])


def test_the_second_of_two_textures(machine):
    first, second = Picture(seed=1), Picture(seed=2)
    words = [*PLACE, isam(R5, R1, "f32", TEX=1), SYNC, *store_row(R5)]
    assert np.array_equal(run(machine, words, [first, second]), second.seen())


def test_any_sampler_that_is_bound(machine):
    picture = Picture()
    words = [*PLACE, isam(R5, R1, "f32", SAMP=2), SYNC, *store_row(R5)]
    assert np.array_equal(run(machine, words, [picture], samplers=3), picture.seen())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([isam(R5, R1, "f32"), mov(R2, R5)], r"r5.x, which 'isam.* sets: no \(sy\)"),
        ([ldib(R5, R1, "f32"), mov(R2, R5 + 3)], r"r5.w, which 'ldib.b.* sets: no \(sy\)"),
        ([isam(R5, R1, "f32"), move(R1, 0)], r"r1.x, which 'isam.* reads: no \(ss\) or \(sy\)"),
        ([stib(R5, R1, "f32"), move(R5 + 2, 0)], r"r5.z, which 'stib.b.* reads: no \(ss\) since"),
        ([isam(R5, R1, "f32", TEX=3)], "texture 3, and 1 are there"),
        ([isam(R5, R1, "f32", SAMP=1)], "sampler 1 is read, and 1 are bound"),
        ([isam(R5, R1, "u32")], "elements of an image as u32"),
        ([isam(R5, R1, "f32", A=1)], "isam with A"),
        ([stib(R5, R1, "f32", TYPED=0)], "not typed"),
        ([stib(R5, R1, "f32", D_MINUS_ONE=0)], "not of two dimensions"),
        ([stib(R5, R1, "f32", 2)], "2 components for an image of 4"),
        ([word("sam", DST=R5, SRC1=R1, FULL=1, WRMASK=15, TYPE=1)], "sam has no meaning here"),
    ],
)
def test_what_is_wrong_or_not_emulated_is_a_fault(machine, words, message):
    with pytest.raises(EmulationFault, match=message):
        run(machine, [*PLACE, *words, END], [Picture()], [Picture()])
