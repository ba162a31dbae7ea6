"""Kernels for every AMD chip, through the embedded LLVM and the linker, up to a disassembler."""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache

import pytest

from treadle import Tensor, dtypes
from treadle.compile.llvm import LLVMCompiler
from treadle.engine.realized import current
from treadle.errors import SettingError
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.render.amdgpu import AMDGPURenderer
from treadle.runtime.hardware.codeobject import link
from treadle.schedule.passes import schedule
from treadle.target import AMD_CHIPS, CDNA2, CDNA3, CDNA4, RDNA3, RDNA4, amd_target

from .corpus import CORPUS, floats, whole

PROGRAMS = CORPUS | {
    "attention": lambda: floats(1, 2, 64, 32).scaled_dot_product_attention(
        floats(1, 2, 64, 32), floats(1, 2, 64, 32)
    ),
    "random numbers": lambda: Tensor.rand(300, device="CPU"),
    "matmul int64": lambda: whole(64, 64, dtype=dtypes.int64) @ whole(64, 64, dtype=dtypes.int64),
}
FEW = ("formulas", "sums float32", "layer norm", "any", "matmul float16", "sort float16")
# Waves of either size get all programs in short runs, other chips a few.
_EACH = ("gfx942", "gfx1100")
WHOLE = AMD_CHIPS if "FULL_TESTS" in os.environ else _EACH
LANES = {chip: 64 if chip.startswith("gfx9") else 32 for chip in AMD_CHIPS}
# Registers that stand at the start of a kernel which asks for nothing but its arguments: chips
# without scratch in their architecture also get a descriptor of it.
AT_START = {
    chip: {"kernarg_segment_ptr": 2}
    | ({"private_segment_buffer": 4} if chip in ("gfx90a", "gfx1030") else {})
    for chip in AMD_CHIPS
}
EACH_CHIP = pytest.mark.parametrize("chip", AMD_CHIPS)


def lowered(tensor, target):
    """The linear programs of all kernels behind `tensor`."""
    found = []
    for kernel in schedule(current([tensor.node])[0], "CPU", target)[0]:
        ast, _ = optimize(kernel.ast, target)
        found += lower(ast, len(kernel.buffers), target).phases
    return found


@cache
def phases_for(chip):
    programs = PROGRAMS if chip in WHOLE else FEW
    return [phase for name in programs for phase in lowered(PROGRAMS[name](), amd_target(chip))]


@cache
def compiled(chip):
    """The object file of all kernels for a chip."""
    target = amd_target(chip)
    return LLVMCompiler(target).compile(AMDGPURenderer(target).render("k", phases_for(chip), ()))


def check_descriptors(image, phases, chip):
    """That an image has each phase's kernel, and says of it what a launch needs."""
    target = amd_target(chip)
    assert sorted(image.kernels) == sorted(f"k_{n}" for n in range(len(phases)))
    for number, phase in enumerate(phases):
        kernel = image.kernels[f"k_{number}"]
        descriptor = kernel.descriptor
        assert kernel.wave == LANES[chip]
        assert dict(descriptor.user_sgprs) == AT_START[chip]
        preloaded, _ = descriptor.preloaded
        assert sum(AT_START[chip].values()) + preloaded <= descriptor.user_sgpr_count <= 16
        assert kernel.entry % 256 == 0
        assert kernel.most_work_items == phase.work_items
        sizes = [8] * len(phase.params) + [4] * len(phase.variables)
        assert [argument.size for argument in kernel.arguments] == sizes
        assert [argument.offset for argument in kernel.arguments] == [
            sum(sizes[:n]) for n in range(len(sizes))
        ]
        assert sum(sizes) <= descriptor.kernarg_bytes <= sum(sizes) + 7
        assert descriptor.group_bytes <= target.workgroup.shared_bytes
        # What does not fit the registers, or has no place in them, is in private memory.
        assert not descriptor.has_scratch
        assert descriptor.private_bytes == kernel.spilled == 0
        assert kernel.vgprs <= target.vector_registers


def check_modes(image):
    """That kernels keep denormals, and round to the nearest."""
    for kernel in image.kernels.values():
        rsrc1 = kernel.descriptor.rsrc1
        assert rsrc1 >> 12 & 0xF == 0  # both rounding modes
        assert rsrc1 >> 16 & 0xF == 0xF  # denormals of 32 bits, and of 16 and 64


@EACH_CHIP
def test_every_kernel_becomes_machine_code_that_says_what_it_needs(chip):
    check_descriptors(link(compiled(chip)), phases_for(chip), chip)


@EACH_CHIP
def test_descriptors_keep_denormals_and_round_to_the_nearest(chip):
    check_modes(link(compiled(chip)))


def disassembler(chip):
    """The newest llvm-objdump that knows the chip."""
    for name in ("llvm-objdump-22", "llvm-objdump"):
        path = shutil.which(name)
        if path is not None:
            known = subprocess.run(
                [path, "--mcpu=help", "--triple=amdgcn", "-d", os.devnull],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if re.search(rf"^\s*{chip}\b", known.stdout + known.stderr, re.MULTILINE):
                return path
    pytest.skip(f"there is no llvm-objdump that knows {chip}: `apt-get install llvm-22` brings it")


@EACH_CHIP
def test_all_of_the_code_is_known_to_a_disassembler(chip, tmp_path):
    objdump = disassembler(chip)
    path = tmp_path / "corpus.o"
    path.write_bytes(compiled(chip))
    text = subprocess.run(
        [objdump, "-d", f"--mcpu={chip}", path], capture_output=True, text=True, check=True
    ).stdout
    assert text.count("s_endpgm") >= len(phases_for(chip))
    assert not re.findall(r".*(?:<unknown>|\.long).*", text)


def assembly(tensor, chip, contract=True):
    target = amd_target(chip)
    text = AMDGPURenderer(target, contract).render("k", lowered(tensor, target), ())
    return LLVMCompiler(target).assembly(text)


@pytest.mark.parametrize("chip", ["gfx90a", "gfx1030", "gfx1100", "gfx1201"])
def test_products_fuse_with_sums_only_where_that_is_allowed(chip):
    total = floats(64) * floats(64).flip(0) + floats(64)
    assert re.search(r"v_(pk_)?fma", assembly(total, chip))
    strict = assembly(total, chip, contract=False)
    assert "fma" not in strict
    assert "mac" not in strict


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_a_barrier_waits_for_shared_memory_alone(chip):
    """Stores to global memory are on their way while a workgroup meets."""
    (phase,) = lowered(floats(30, 500).softmax(1), amd_target(chip))
    text = AMDGPURenderer(amd_target(chip)).render("k", [phase], ())
    assert text.count("fence") == 2 * text.count("call void @llvm.amdgcn.s.barrier()") > 0
    before = re.findall(r".*\n(?:\s*s_nop.*\n)*\s*s_barrier", assembly(floats(30, 500).softmax(1),
                                                                       chip))  # fmt: skip
    assert before
    for line in before:
        assert "lgkmcnt(0)" in line
        assert "vmcnt" not in line


UNITS = {"gfx90a": CDNA2, "gfx942": CDNA3, "gfx950": CDNA4, "gfx1100": RDNA3, "gfx1201": RDNA4}


@pytest.mark.parametrize("chip", UNITS)
def test_each_matrix_unit_is_one_instruction(chip):
    """Those that no target lists, too: products of 32 x 32, and of rounded factors."""
    for unit in UNITS[chip].values():
        target = replace(amd_target(chip), matrix_units=(unit,), rounding_units=())
        x, y = (whole(64, 64, dtype=unit.dtype).cast(unit.sums) for _ in range(2))
        text = AMDGPURenderer(target).render("k", lowered(x @ y, target), ())
        found = re.findall(r"v_(?:wmma|mfma)\w+", LLVMCompiler(target).assembly(text))
        assert {one.removesuffix("_e64") for one in found} == {unit.instruction}


@pytest.mark.parametrize(("chip", "reads"), [("gfx942", 6), ("gfx1100", 5)])
def test_lanes_exchange_values_by_one_instruction_a_step(chip, reads):
    text = assembly(whole(6, 300).sum(1), chip)
    steps = re.findall(r"v_add\w+ .*(?:quad_perm|row_half_mirror|row_mirror)", text)
    steps += re.findall(r"v_permlanex16_b32|ds_swizzle_b32|ds_bpermute_b32", text)
    assert len(steps) == reads


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_the_text_of_small_kernels_is_as_recorded(chip, golden):
    target, x = amd_target(chip), floats(100, 70)
    renderer = AMDGPURenderer(target)
    texts = [
        renderer.render("k", lowered(value, target), ())
        for value in (x.sum(1), (x > 0).any(1), (x * 2 + 1).maximum(0).cast(dtypes.int32))
    ]
    golden(f"amdgpu_{chip}.ll", "\n".join(texts))


def test_a_chip_that_nobody_knows_is_an_error_that_lists_those_known():
    with pytest.raises(SettingError, match=r"unknown AMD chip 'gfx803'; known: gfx90a, .*gfx1201"):
        amd_target("gfx803")
