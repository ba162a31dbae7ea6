"""The text that render/ir3 prints becomes machine code of Adreno 6xx by Mesa's compiler.

    compile_here("a630", text)   ->  an object (see ir3_object)

Each instruction of the text is said in NIR, a virtual register is one of NIR's. What Mesa makes of
that is its own: operands, order, registers, waits, encoding. So it is another compiler of the same
kernels, and a judge of ours.
"""

from __future__ import annotations

import ctypes
import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.compile import nir
from treadle.compile.ir3.code import Constant, Literal, Operand, Value
from treadle.compile.ir3.text import read_head, read_image, read_operand
from treadle.errors import InternalError
from treadle.ir3_object import KernelCode, pack
from treadle.target import adreno_chip

if TYPE_CHECKING:
    from treadle.ir3_object import ImageSlot
    from treadle.target import AdrenoChip

__all__ = ["compile_here"]

# Instructions whose operands are numbers of 32 bits, by what NIR calls them.
_PLAIN = {
    "add.f": "fadd", "mul.f": "fmul", "absneg.f": "mov", "floor.f": "ffloor", "ceil.f": "fceil",
    "rndne.f": "fround_even", "trunc.f": "ftrunc", "add.u": "iadd",
    "sub.u": "isub", "min.u": "umin", "min.s": "imin", "max.u": "umax", "max.s": "imax",
    "and.b": "iand", "or.b": "ior", "xor.b": "ixor", "mul.u24": "umul24", "mul.s24": "imul24",
    "mull.u": "umul_low", "shl.b": "ishl", "shr.b": "ushr", "ashr.b": "ishr",
    "madsh.m16": "imadsh_mix16", "mad.s24": "imad24_ir3", "mad.f32": "ffma", "rcp": "frcp",
    "sqrt": "fsqrt", "mov.u32u32": "mov", "mov.u16u16": "mov", "cov.u32u16": "u2u16",
    "cov.u16u32": "u2u32", "cov.s16s32": "i2i32", "cov.u32f32": "u2f32", "cov.f32s32": "f2i32",
    "cov.f32u32": "f2u32", "cov.f16f32": "f2f32", "cov.f32f16.even": "f2f16_rtne",
}  # fmt: skip
_FLOATS = frozenset(("add.f", "mul.f", "absneg.f", "mad.f32", "rcp", "sqrt", "cmps.f"))
# Comparisons: an operation, and whether its sources change places.
_COMPARISONS = {
    f"cmps.{kind}.{condition}": (name, changes)
    for kind, less, not_less, equal, unequal in (
        ("f", "flt", "fge", "feq", "fneu"),
        ("s", "ilt", "ige", "ieq", "ine"),
        ("u", "ult", "uge", "ieq", "ine"),
    )
    for condition, name, changes in (
        ("lt", less, False), ("le", not_less, True), ("gt", less, True), ("ge", not_less, False),
        ("eq", equal, False), ("ne", unequal, False),
    )
}  # fmt: skip
_ACCESS = re.compile(r"(ld|st)([gl])(\.a)?\.u(8|16|32)")
_WORKGROUP_REGISTER, _LOCAL_REGISTER = 48 * 4, 0
_WORKGROUP_SCOPE, _ACQUIRE_RELEASE = 4, 3
_SHARED_AND_GLOBAL = 1 << 19 | 1 << 20
_TWO_DIMENSIONS, _MAY_BE_A_TEXTURE, _FLOAT32 = 1, 1 << 6, 128 | 32
_MOST_IMAGES = 32  # those that are textures are the last ones to Mesa, in falling order

# Sizes of Mesa's structures and places in them.
_OPTIONS, _UNROLL = 248, 156  # nir_shader_compiler_options, and how often loops are unrolled
_COMPILER_OPTIONS, _DISABLE_CACHE, _HAS_PREAMBLE = 32, 1, 409
_SHADER, _SHADER_COMPILER, _SHADER_NIR, _SHADER_VARIANTS = 1216, 16, 256, 1064
_VARIANT, _VARIANT_TYPE, _VARIANT_COMPILER, _CONST_STATE, _IMMEDIATES = 2040, 136, 144, 200, 208
_SHADER_OPTIONS = 332
_INFO, _BRANCHES, _CONSTLEN, _PRIVATE, _SHARED = 224, 564, 576, 580, 588
_IMAGE_TEXTURES, _NO_TEXTURE = 1156, 255  # the texture of each image that is read as one
_MERGED, _HAS_BARRIER, _LOCAL_ID, _GROUP_ID = 1243, 1473, 1492, 1496
_STATE, _STATE_ALLOCATED, _ALLOCATED, _PUSHED_SIZE, _ALLOCATED_END = 1424, 44, 20, 4, 192
_COMPUTE = 5
_NO_REGISTER = 63 * 4


def compile_here(chip: str, source: str) -> bytes:
    """The object of a text. Where an assertion of Mesa's fails, this process ends.

    One thread at a time may call it. Raises InternalError.
    """
    return pack([_machine_code(text, adreno_chip(chip)) for text in _kernels(source)])


def _kernels(source: str) -> list[list[str]]:
    """The lines of each kernel."""
    found: list[list[str]] = []
    for line in source.splitlines():
        if line.startswith("kernel "):
            found.append([])
        if line.strip():
            if not found:
                raise InternalError(f"no kernel before {line.strip()!r}")
            found[-1].append(line.strip())
    return found


# -- Mesa's objects -------------------------------------------------------------------------------


def _word(address: int) -> ctypes.c_uint32:
    return ctypes.c_uint32.from_address(address)


def _pointer(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(address)


@functools.cache
def _compiler(chip: AdrenoChip) -> tuple[int, ctypes.Array[ctypes.c_char]]:
    """Mesa's compiler for a chip, and its options for NIR. Both stay."""
    mesa = nir.library()
    number = ctypes.create_string_buffer(16)  # fd_dev_id
    _word(ctypes.addressof(number)).value = int(chip.name[1:])
    ctypes.c_uint64.from_address(ctypes.addressof(number) + 8).value = chip.chip_id
    info = mesa.fd_dev_info_raw(number)
    if not info:
        raise InternalError(f"Mesa does not know {chip.name} ({chip.chip_id:#x})")
    options = ctypes.create_string_buffer(_COMPILER_OPTIONS)
    options[_DISABLE_CACHE] = 1
    made = mesa.ir3_compiler_create(ctypes.c_void_p(), number, ctypes.c_void_p(info), options)
    ctypes.c_bool.from_address(made + _HAS_PREAMBLE).value = False
    found = mesa.ir3_get_compiler_options(ctypes.c_void_p(made))
    ours = ctypes.create_string_buffer(ctypes.string_at(found, _OPTIONS), _OPTIONS)
    _word(ctypes.addressof(ours) + _UNROLL).value = 0  # that was decided before
    return made, ours


def _machine_code(lines: list[str], chip: AdrenoChip) -> KernelCode:
    name, work_items, buffers, variables, shared = read_head(lines[0])
    images = [
        read_image(line.removeprefix("memory ")) for line in lines if line.startswith("memory ")
    ]
    if len(images) > _MOST_IMAGES:
        raise InternalError(f"{name} takes {len(images)} images: Mesa counts to {_MOST_IMAGES}")
    mesa, (compiler, options) = nir.library(), _compiler(chip)
    built = nir.Shader(mesa, ctypes.addressof(options), work_items, shared)
    _Text(built, lines[1:]).build()
    mesa.nir_lower_reg_intrinsics_to_ssa(ctypes.c_void_p(built.address))
    finalizing = ctypes.create_string_buffer(4)
    mesa.ir3_finalize_nir(ctypes.c_void_p(compiler), finalizing, ctypes.c_void_p(built.address))
    shader: int = mesa.rzalloc_size(ctypes.c_void_p(), ctypes.c_size_t(_SHADER))
    try:
        return _compiled(mesa, shader, built.address, compiler, KernelCode(
            name, work_items, buffers, variables, 0, 0, 64, 0, shared, 0, 0, False, (), (),
            tuple(images),
        ))  # fmt: skip
    finally:
        mesa.ralloc_free(ctypes.c_void_p(shader))
        mesa.ralloc_free(ctypes.c_void_p(built.address))


def _compiled(
    mesa: ctypes.CDLL, shader: int, shader_nir: int, compiler: int, known: KernelCode
) -> KernelCode:
    _word(shader).value = _COMPUTE
    _pointer(shader + _SHADER_COMPILER).value = compiler
    _pointer(shader + _SHADER_NIR).value = shader_nir
    mesa.ir3_nir_post_finalize(ctypes.c_void_p(shader))
    variant: int = mesa.rzalloc_size(ctypes.c_void_p(shader), ctypes.c_size_t(_VARIANT))
    state: int = mesa.rzalloc_size(ctypes.c_void_p(variant), ctypes.c_size_t(_STATE))
    _word(variant + _VARIANT_TYPE).value = _COMPUTE
    _pointer(variant + _VARIANT_COMPILER).value = compiler
    _pointer(variant + _CONST_STATE).value = state
    ctypes.c_bool.from_address(variant + _MERGED).value = True  # halves are parts of whole ones
    parameters = -(-(2 * known.buffers + known.variables) // 4)
    # What the runtime puts there is Mesa's push constants, and its own numbers come behind them.
    for allocated in (variant + _SHADER_OPTIONS + _ALLOCATED, state + _STATE_ALLOCATED):
        _word(allocated + _PUSHED_SIZE).value = parameters
        _word(allocated + _ALLOCATED_END).value = parameters
    _pointer(shader + _SHADER_VARIANTS).value = variant
    _word(shader + 8).value = 1
    if mesa.ir3_compile_shader_nir(
        ctypes.c_void_p(compiler), ctypes.c_void_p(shader), ctypes.c_void_p(variant)
    ):
        raise InternalError(f"{known.name} does not compile")
    code = mesa.ir3_shader_assemble(ctypes.c_void_p(variant))
    if not code:
        raise InternalError(f"{known.name} does not assemble")
    return _entry(variant, state, code, known)  # the code goes with the variant


def _entry(variant: int, state: int, code: int, known: KernelCode) -> KernelCode:
    _check_numbers(variant, known.name)
    nbytes = _word(variant + _INFO).value
    words = memoryview(ctypes.string_at(code, nbytes)).cast("Q").tolist()
    count = _word(variant + _IMMEDIATES + 4).value
    values = _pointer(variant + _IMMEDIATES + 8).value
    literals = memoryview(ctypes.string_at(values or 0, 4 * count)).cast("I").tolist()
    first = _word(state + _STATE_ALLOCATED + _ALLOCATED_END).value
    whole, half = (ctypes.c_int8.from_address(variant + _INFO + at).value for at in (24, 25))
    return replace(
        known,
        registers=max(whole, half // 2, 0) + 1,
        branches=_word(variant + _BRANCHES).value,
        private=_word(variant + _PRIVATE).value,
        shared=_word(variant + _SHARED).value,
        constants=max(_word(variant + _CONSTLEN).value, first + -(-count // 4)),
        first_literal=first,
        has_barrier=ctypes.c_bool.from_address(variant + _HAS_BARRIER).value,
        literals=tuple(literals),
        code=tuple(words),
        images=_numbered(variant, known.images),
    )


def _numbered(variant: int, images: tuple[ImageSlot, ...]) -> tuple[ImageSlot, ...]:
    """Images by their numbers in the code: Mesa counts the textures that it uses, as it does so."""
    numbers = ctypes.string_at(variant + _IMAGE_TEXTURES, _MOST_IMAGES)
    found: list[ImageSlot] = []
    for image in images:
        number = numbers[_texture(image.number)] if image.is_texture else image.number
        if number != _NO_TEXTURE:
            found.append(replace(image, number=number))
    return tuple(found)


def _texture(number: int) -> int:
    """The image that a texture is to Mesa."""
    return _MOST_IMAGES - 1 - number


def _check_numbers(variant: int, name: str) -> None:
    """The code has the numbers of work items and workgroups where the runtime puts them."""
    for place, wanted in ((_LOCAL_ID, _LOCAL_REGISTER), (_GROUP_ID, _WORKGROUP_REGISTER)):
        found = _word(variant + place).value
        if found not in (wanted, _NO_REGISTER):
            raise InternalError(f"{name} starts with numbers in register {found}, not {wanted}")


# -- text to NIR ----------------------------------------------------------------------------------


class _Text:
    """The lines of one kernel on their way to a shader."""

    def __init__(self, shader: nir.Shader, lines: list[str]) -> None:
        self._shader, self._lines = shader, lines
        self._registers: dict[tuple[int, int], int] = {}  # by number and lane
        self._halves: set[int] = set()
        self._open: list[tuple[str, int]] = []  # what is open, and how Mesa names it
        self._work_item = self._workgroup = 0

    def build(self) -> None:
        """All of it. Raises InternalError for a line that is none."""
        shader = self._shader
        self._work_item = shader.component(
            shader.intrinsic("load_local_invocation_id", count=3), 0, 32
        )
        self._workgroup = shader.component(shader.intrinsic("load_workgroup_id", count=3), 0, 32)
        for line in self._lines:
            self._declare(line)
        for line in self._lines:
            word, _, rest = line.partition(" ")
            try:
                self._line(word, [part.strip() for part in rest.split(",")] if rest else [])
            except InternalError as error:
                raise InternalError(f"{line!r}: {error}") from error
        if self._open:
            raise InternalError("a loop or a condition is not closed")

    def _declare(self, line: str) -> None:
        """Registers for the virtual ones of a line, ahead of all conditions."""
        for text in re.findall(r"%h?\d+(?:\.\d+)?(?::\d+)?", line):
            value = read_operand(text)
            assert isinstance(value, Value)
            for lane in value.lanes:
                if lane not in self._registers:
                    self._registers[lane] = self._shader.intrinsic(
                        "decl_reg", num_components=1, bit_size=16 if value.half else 32
                    )

    # -- operands

    def _read(self, of: Operand, is_float: bool = False, is_half: bool = False) -> int:
        """One number."""
        found = self._plain(of, is_half)
        if of.abs:
            found = self._shader.alu("fabs" if is_float else "iabs", found)
        if of.neg:
            found = self._shader.alu("fneg" if is_float else "ineg", found)
        return found

    def _plain(self, of: Operand, is_half: bool) -> int:
        shader = self._shader
        if isinstance(of, Value):
            return self._held(of.lanes[0], of.half)
        if isinstance(of, Literal):
            return shader.number(of.bits, 16 if is_half else 32)
        if isinstance(of, Constant):
            return shader.intrinsic("load_const_ir3", shader.number(0), base=of.index)
        if of.number == _LOCAL_REGISTER:
            return self._work_item
        if of.number == _WORKGROUP_REGISTER:
            return self._workgroup
        raise InternalError(f"register {of.number} is none that a kernel starts with")

    def _held(self, lane: tuple[int, int], is_half: bool) -> int:
        return self._shader.intrinsic("load_reg", self._registers[lane], bits=16 if is_half else 32)

    def _set(self, lane: tuple[int, int], value: int) -> None:
        self._shader.intrinsic("store_reg", value, self._registers[lane], write_mask=1)

    def _close(self, kind: str) -> int:
        if not self._open or self._open[-1][0] != kind:
            raise InternalError(f"there is no open {kind}")
        return self._open.pop()[1]

    def _is_true(self, text: str) -> int:
        return self._shader.alu("ine", self._read(read_operand(text)), self._shader.number(0))

    # -- lines

    def _line(self, word: str, texts: list[str]) -> None:
        shader = self._shader
        if word in ("vector", "memory", "fence.r.w"):  # the barrier behind it orders memory too
            return
        if word == "bar.g":
            shader.intrinsic(
                "barrier", execution_scope=_WORKGROUP_SCOPE, memory_scope=_WORKGROUP_SCOPE,
                memory_semantics=_ACQUIRE_RELEASE, memory_modes=_SHARED_AND_GLOBAL,
            )  # fmt: skip
        elif word == "if":
            self._open.append(("if", shader.push_if(self._is_true(texts[0]))))
        elif word == "end":
            shader.pop_if(self._close("if"))
        elif word == "loop":
            self._open.append(("loop", shader.push_loop()))
        elif word == "while":
            ended = shader.alu("inot", self._is_true(texts[0]))
            opened = shader.push_if(ended)
            shader.leave_loop()
            shader.pop_if(opened)
            shader.pop_loop(self._close("loop"))
        elif word in ("isam.f32", "ldib.b.f32"):
            self._read_texel(word == "isam.f32", *map(read_operand, texts))
        elif word == "stib.b.f32":
            self._write_texel(*map(read_operand, texts))
        elif (access := _ACCESS.fullmatch(word)) is not None:
            self._access(access, [read_operand(text) for text in texts])
        else:
            target, *sources = (read_operand(text) for text in texts)
            if not isinstance(target, Value):
                raise InternalError("the result is no virtual register")
            self._set(target.lanes[0], self._computed(word, target, sources))

    def _computed(self, op: str, target: Value, sources: list[Operand]) -> int:
        shader = self._shader
        if op in _COMPARISONS:
            name, changes = _COMPARISONS[op]
            found = [self._read(one, op.startswith("cmps.f")) for one in sources]
            return shader.alu("b2i32", shader.alu(name, *(found[::-1] if changes else found)))
        if op in ("sel.b32", "sel.b16"):
            is_half = op == "sel.b16"
            yes, *found = (self._read(one, is_half=is_half) for one in sources)
            gate = shader.alu("ine", *found[:1], shader.number(0, 16 if is_half else 32))
            return shader.alu("bcsel", gate, yes, *found[1:])
        if op in ("cov.u32f32.even", "cov.s32f32.even"):
            return self._nearest("u2f32" if op[4] == "u" else "i2f32", *map(self._read, sources))
        if op == "clz.b":  # of 0 it is -1
            (value,) = (self._read(one) for one in sources)
            zeros = shader.alu("isub", shader.number(31), shader.alu("ufind_msb", value))
            is_none = shader.alu("ieq", value, shader.number(0))
            return shader.alu("bcsel", is_none, shader.number(-1), zeros)
        if op not in _PLAIN:
            raise InternalError(f"no instruction {op}")
        is_float = op in _FLOATS
        return shader.alu(
            _PLAIN[op],
            *(self._read(one, is_float, op == "mov.u16u16") for one in sources),
        )

    def _nearest(self, name: str, value: int) -> int:
        """An integer rounded to the nearest float: NIR leaves open how it rounds.

        Both halves of it are floats already, and a sum is rounded to nearest.
        """
        shader = self._shader
        high = shader.alu("iand", value, shader.number(0xFFFF0000))
        low = shader.alu("iand", value, shader.number(0xFFFF))
        return shader.alu("fadd", shader.alu(name, high), shader.alu("u2f32", low))

    # -- memory

    def _access(self, access: re.Match[str], operands: list[Operand]) -> None:
        loads, is_shared = access[1] == "ld", access[2] == "l"
        bits, is_indexed = int(access[4]), bool(access[3])
        value = operands.pop(0 if loads else 1)
        if not isinstance(value, Value | Literal | Constant):
            raise InternalError("no value to load or store")
        base, *place, _ = operands
        if is_shared:
            (offset,) = place
            self._near(loads, bits, value, base, offset)
        elif is_indexed:
            self._indexed(loads, value, base, place)
        else:
            (offset,) = place
            self._far(loads, bits, value, base, offset)

    def _near(self, loads: bool, bits: int, value: Operand, base: Operand, offset: Operand) -> None:
        assert isinstance(offset, Literal)
        where = {"base": offset.bits, "align_mul": bits // 8}
        at = self._read(base)
        if loads:
            assert isinstance(value, Value)
            found = self._shader.intrinsic("load_shared", at, count=value.count, bits=bits, **where)
            self._keep(value, found, bits)
        else:
            data, count = self._together(value, bits)
            self._shader.intrinsic(
                "store_shared", data, at, count=count, write_mask=(1 << count) - 1, **where
            )

    def _address(self, base: Operand) -> int:
        if not isinstance(base, Value) or base.count != 2:
            raise InternalError("an address is no pair of registers")
        low, high = (self._held(lane, False) for lane in base.lanes)
        return self._shader.alu("pack_64_2x32_split", low, high)

    def _indexed(self, loads: bool, value: Operand, base: Operand, place: list[Operand]) -> None:
        """Words behind an address: (index << shift) + words."""
        shader = self._shader
        index, shift, words = place
        assert isinstance(shift, Literal)
        assert isinstance(words, Literal)
        offset = shader.alu("ishl", self._read(index), shader.number(shift.bits))
        offset = shader.alu("iadd", offset, shader.number(words.bits))
        address = self._address(base)
        if loads:
            assert isinstance(value, Value)
            found = shader.intrinsic(
                "load_global_ir3", address, offset, count=value.count, align_mul=4
            )
            self._keep(value, found, 32)
        else:
            data, count = self._together(value, 32)
            shader.intrinsic("store_global_ir3", data, address, offset, count=count, align_mul=4)

    def _far(self, loads: bool, bits: int, value: Operand, base: Operand, offset: Operand) -> None:
        shader = self._shader
        assert isinstance(offset, Literal)
        address = shader.alu("iadd", self._address(base), shader.number(offset.bits, 64))
        if loads:
            assert isinstance(value, Value)
            found = shader.intrinsic(
                "load_global", address, count=value.count, bits=bits, align_mul=bits // 8
            )
            self._keep(value, found, bits)
        else:
            data, count = self._together(value, bits)
            shader.intrinsic(
                "store_global", data, address, count=count, write_mask=(1 << count) - 1,
                align_mul=bits // 8,
            )  # fmt: skip

    def _image(self, place: Operand, number: int) -> tuple[int, int, int]:
        """An image's number, coordinates of four, and which of several samples is meant: none."""
        shader, zero = self._shader, self._shader.number(0)
        if not isinstance(place, Value) or place.count != 2:
            raise InternalError("coordinates are no pair of registers")
        x, y = (self._held(lane, False) for lane in place.lanes)
        return shader.number(number), shader.alu("vec4", x, y, zero, zero), zero

    def _read_texel(
        self, is_texture: bool, target: Operand, place: Operand, number: Operand
    ) -> None:
        assert isinstance(target, Value)
        assert isinstance(number, Literal)
        which = _texture(number.bits) if is_texture else number.bits
        found = self._shader.intrinsic(
            "image_load", *self._image(place, which), self._shader.number(0), count=4,
            image_dim=_TWO_DIMENSIONS, access=_MAY_BE_A_TEXTURE if is_texture else 0,
            dest_type=_FLOAT32,
        )  # fmt: skip
        self._keep(target, found, 32)

    def _write_texel(self, value: Operand, place: Operand, number: Operand) -> None:
        assert isinstance(number, Literal)
        data, count = self._together(value, 32)
        self._shader.intrinsic(
            "image_store", *self._image(place, number.bits), data, self._shader.number(0),
            count=count, image_dim=_TWO_DIMENSIONS, src_type=_FLOAT32,
        )  # fmt: skip

    def _keep(self, value: Value, found: int, bits: int) -> None:
        """What was loaded, in registers; bytes are halves there."""
        shader = self._shader
        for number, lane in enumerate(value.lanes):
            one = shader.component(found, number, bits)
            self._set(lane, shader.alu("u2u16", one) if bits == 8 else one)

    def _together(self, value: Operand, bits: int) -> tuple[int, int]:
        """What is stored as a vector, and how many components it has."""
        shader = self._shader
        if isinstance(value, Value):
            parts = [self._held(lane, value.half) for lane in value.lanes]
        else:
            parts = [self._read(value, is_half=bits < 32)]
        if bits == 8:
            parts = [shader.alu("u2u8", part) for part in parts]
        return shader.alu(f"vec{len(parts)}", *parts) if len(parts) > 1 else parts[0], len(parts)
