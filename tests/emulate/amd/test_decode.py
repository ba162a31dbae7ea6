"""Machine code decoded blind, against LLVM's text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from tests.emulate.amd.llvm import normal

from treadle.emulate.amd.decode import DecodeError, Instruction, decode
from treadle.emulate.amd.operands import Kind
from treadle.emulate.amd.table import CHIPS, rows, wave_sizes
from treadle.emulate.amd.text import text

FIXTURE = json.loads((Path(__file__).parent / "instructions.json").read_text())
BEHIND = bytes(range(1, 9))  # bytes of the next instruction, which must not matter

# Whose operands are not compared: the mnemonic and the length are.
OTHER_TEXT = re.compile(
    # LLVM prints a name where the package prints a number.
    r"s_sendmsg|s_set_gpr_idx|s_waitcnt_depctr|s_wait_alu|s_delay_alu|s_version|s_getreg|s_setreg"
    r"|ds_swizzle"
    # gfx12 keeps s_waitcnt, whose counters the package reads by another layout there than LLVM.
    r"|s_waitcnt"
    # Modifiers or suffixes that the package prints otherwise than LLVM: not yet understood.
    r"|v_dot4_u32_u8|v_dot4_i32_i8|v_dot8|v_dot2acc|v_pk_fmac"
    r"|v_cvt_pk_(fp8|bf8)_f32_e64_dpp"
    # LLVM 22 prints the bits of a constant that it has not decoded, or of more than the literal.
    r"|v_fmac_f(16|32)_e64_dpp|v_dot2_(bf16|f16)_(bf16|f16)"
    # LLVM 22 assembles src_scc to another number here.
    r"|s_barrier_(join|signal)"
    # LLVM 22 prints no sign or absolute value of a second source that is an integer.
    r"|v_cvt_sr_(fp8|bf8)_f32"
    # FP8 by SDWA: LLVM 22 prints a negated source as one whose sign is extended.
    r"|v_cvt_(pk_)?f32_(fp8|bf8)_sdwa"
    # LLVM 22 loses the highest bit of quad_perm here.
    r"|v_fma_mix(lo|hi)?_(f16|f32)_e64_dpp"
    # LLVM 22 prints |v18, vcc_lo| for |v18|, vcc_lo.
    r"|v_cndmask_b(16|32)_dpp"
)


def same(found: Instruction, expected: str) -> bool:
    """Whether an instruction has LLVM's mnemonic, and its operands where both are spelled alike."""
    mine = normal(text(found))
    if OTHER_TEXT.match(expected):
        names = (mine.split()[0].removesuffix("_e32"), expected.split()[0].removesuffix("_e32"))
        return names[0] == names[1]
    return mine == expected


@pytest.mark.parametrize("chip", CHIPS)
def test_instructions_of_every_encoding_have_llvms_length_and_text(chip: str) -> None:
    wrong = []
    for code, expected in FIXTURE[chip]:
        found = decode(bytes.fromhex(code) + BEHIND, 0, chip)
        if found.size != len(code) // 2 or not same(found, expected):
            wrong.append((code, expected, text(found)))
    assert not wrong


def test_the_fixture_has_every_encoding_that_a_chip_has() -> None:
    for chip in CHIPS:
        found = {decode(bytes.fromhex(code), 0, chip).encoding for code, _ in FIXTURE[chip]}
        known = {row.encoding for _, row in rows(chip, wave_sizes(chip)[0])}
        assert {e for e in known - found if not re.match("EXP|VEXPORT|MIMG|VIMAGE|VSAMPLE", e)} <= {
            "VOP3P_DPP16",
            "VOP3P_DPP8",
            "LDSDIR",
            "VDSDIR",
            "VINTRP",
        }


def test_an_operation_has_one_name_in_all_of_its_encodings() -> None:
    codes = {
        "VOP2": "02040206",
        "VOP3": "010003d502040200",
        "VOP2_DPP16": "fa0402061be400ff",
        "VOP2_DPP8": "e904020601776ac6",
    }
    for encoding, code in codes.items():
        found = decode(bytes.fromhex(code), 0, "gfx1100")
        assert (found.operation, found.encoding) == ("v_add_f32", encoding)


def test_both_halves_of_a_dual_instruction_are_instructions_by_themselves() -> None:
    found = decode(bytes.fromhex("020708c907050602"), 0, "gfx1100")
    assert [half.operation for half in found.pair] == ["v_add_f32", "v_add_f32"]
    assert set(found.pair[0].operands) == {"vdst", "src0", "src1"}


def test_a_literal_belongs_to_the_instruction_and_fills_the_upper_half_of_a_float64() -> None:
    added = decode(bytes.fromhex("000064d5ff0402000000044000000000"), 0, "gfx1030")
    assert (added.operation, added.size) == ("v_add_f64", 12)
    assert added.operands["src0"].value == 0x40040000 << 32
    moved = decode(bytes.fromhex("ff0080be78563412"), 0, "gfx1100")
    assert moved.size == 8
    assert (moved.operands["src0"].kind, moved.operands["src0"].value) == (Kind.LITERAL, 0x12345678)


def test_bytes_that_are_no_instruction_are_an_error_with_their_address() -> None:
    with pytest.raises(DecodeError, match=r"gfx1100 begins with ffffffff .*offset 0x4"):
        decode(b"\0\0\0\0" + b"\xff" * 8, 4, "gfx1100")
    with pytest.raises(DecodeError, match="begins with nothing"):
        decode(b"", 0, "gfx1100")
    with pytest.raises(DecodeError, match="no encodings for 'gfx700'"):
        decode(b"\0" * 8, 0, "gfx700")


def test_an_instruction_that_the_code_cuts_off_is_an_error() -> None:
    with pytest.raises(DecodeError):
        decode(bytes.fromhex("ff0080be"), 0, "gfx1100")


KERNEL = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
define amdgpu_kernel void @sum(ptr addrspace(1) %out, ptr addrspace(1) %in, i32 %n) {
entry:
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  br label %loop
loop:
  %i = phi i32 [ %lane, %entry ], [ %next, %loop ]
  %total = phi double [ 0.0, %entry ], [ %more, %loop ]
  %at = getelementptr float, ptr addrspace(1) %in, i32 %i
  %value = load float, ptr addrspace(1) %at
  %root = call float @llvm.sqrt.f32(float %value)
  %wide = fpext float %root to double
  %more = fadd double %total, %wide
  %next = add i32 %i, 64
  %going = icmp slt i32 %next, %n
  br i1 %going, label %loop, label %end
end:
  %place = getelementptr double, ptr addrspace(1) %out, i32 %lane
  store double %more, ptr addrspace(1) %place
  ret void
}
declare float @llvm.sqrt.f32(float)
"""


def compiled(chip: str) -> bytes:
    """The code of a kernel with a loop, from the embedded LLVM."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu=chip, opt=2)
    built = machine.emit_object(llvm.parse_assembly(KERNEL))
    sections = llvm.ObjectFileRef.from_data(built).sections()
    return next(bytes(part.data()) for part in sections if part.name() in (b".text", ".text"))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_compiled_kernel_decodes_to_its_last_byte_and_branches_to_instructions(chip: str) -> None:
    code = compiled(chip)
    found = {}
    offset = 0
    while offset < len(code):
        found[offset] = decode(code, offset, chip)
        offset += found[offset].size
    assert offset == len(code)
    branches = [
        one for one in found.values() if one.operation.startswith(("s_branch", "s_cbranch"))
    ]
    for one in branches:
        distance = (one.modifiers["simm16"] ^ 0x8000) - 0x8000
        assert one.offset + 4 + 4 * distance in found
    assert branches
    assert any(one.operation == "s_endpgm" for one in found.values())
