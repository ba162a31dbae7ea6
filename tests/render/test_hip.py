"""HIP of all kernels, through AMD's libamd_comgr, and through a newer clang for newer chips."""

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache

import pytest

from treadle import Tensor, dtypes
from treadle.compile.comgr import ComgrCompiler
from treadle.errors import DeviceError
from treadle.render.hip import HIPRenderer
from treadle.runtime.hardware.codeobject import link
from treadle.target import AMD_CHIPS, amd_target

from .corpus import floats, whole
from .test_amdgpu import (
    PROGRAMS,
    UNITS,
    check_descriptors,
    check_modes,
    disassembler,
    lowered,
    phases_for,
)

OF_COMGR = ("gfx1030", "gfx90a")  # chips that are emulated and that Debian's library knows
EACH_CHIP = pytest.mark.parametrize("chip", OF_COMGR)
NEWEST = "clang-22"
# As the options of compile/comgr.py, with all warnings.
OPTIONS = (
    "-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "-O3", "-fno-unroll-loops",
    "-ffp-contract=off", "-Wall", "-Wno-narrowing", "-Wno-unused-variable",
)  # fmt: skip


@cache
def all_phases_for(chip):
    target = amd_target(chip)
    return [phase for program in PROGRAMS.values() for phase in lowered(program(), target)]


def code_of(chip, phases, contract=True):
    target = amd_target(chip)
    compiler = ComgrCompiler(target)
    try:
        return compiler.compile(HIPRenderer(target, contract).render("k", phases, ()))
    except DeviceError as error:
        pytest.skip(str(error))


@cache
def compiled(chip):
    """The object file of all kernels for a chip."""
    return code_of(chip, all_phases_for(chip))


def assembly(code, chip, tmp_path):
    objdump = disassembler(chip)
    path = tmp_path / "code.o"
    path.write_bytes(code)
    return subprocess.run(
        [objdump, "-d", f"--mcpu={chip}", path], capture_output=True, text=True, check=True
    ).stdout


def by_newest_clang(chip, text, *options):
    """What a newer clang makes of HIP, for chips that Debian's library does not know."""
    path = shutil.which(NEWEST)
    if path is None:
        pytest.skip(f"there is no {NEWEST}: `apt-get install {NEWEST}` brings it")
    done = subprocess.run(
        [path, *OPTIONS, f"--offload-arch={chip}", *options, "-o", "-", "-"],
        input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


@EACH_CHIP
def test_every_kernel_becomes_machine_code_that_says_what_it_needs(chip):
    check_descriptors(link(compiled(chip)), all_phases_for(chip), chip)


@EACH_CHIP
def test_descriptors_keep_denormals_and_round_to_the_nearest(chip):
    check_modes(link(compiled(chip)))


@EACH_CHIP
def test_products_fuse_with_sums_only_where_that_is_allowed(chip, tmp_path):
    phases = lowered(floats(64) * floats(64).flip(0) + floats(64), amd_target(chip))
    fused, strict = (
        assembly(code_of(chip, phases, contract), chip, tmp_path) for contract in (True, False)
    )
    assert re.search(r"v_(pk_)?fma", fused)
    assert "fma" not in strict
    assert "mac" not in strict


@EACH_CHIP
@pytest.mark.parametrize(("dtype", "least"), [(dtypes.float32, 2), (dtypes.float64, 4)])
def test_a_square_root_is_mended_behind_the_hardwares(chip, dtype, least, tmp_path):
    phases = lowered(whole(64).cast(dtype).sqrt(), amd_target(chip))
    text = assembly(code_of(chip, phases), chip, tmp_path)
    assert re.search(r"v_(sqrt|rsq)_f", text)
    assert len(re.findall(r"v_(?:pk_)?fma", text)) >= least


@pytest.mark.parametrize(("chip", "reads"), [("gfx90a", 6), ("gfx1030", 5)])
def test_lanes_exchange_values_by_one_instruction_a_step(chip, reads, tmp_path):
    phases = lowered(whole(6, 300).sum(1), amd_target(chip))
    text = assembly(code_of(chip, phases), chip, tmp_path)
    steps = re.findall(r"_dpp .*(?:quad_perm|row_half_mirror|row_mirror)", text)
    steps += re.findall(r"v_permlanex16_b32|ds_swizzle_b32|ds_bpermute_b32", text)
    assert len(steps) == reads


def test_all_lanes_take_part_in_an_exchange(tmp_path):
    """No branch stands between the last exchange and the addition of what it gave."""
    phases = lowered(whole(6, 300).sum(1), amd_target("gfx1030"))
    text = assembly(code_of("gfx1030", phases), "gfx1030", tmp_path)
    before, _, _ = text.partition("v_permlanex16_b32")
    assert "s_barrier" in before
    assert "saveexec" not in before.rpartition("s_barrier")[2]


def test_each_matrix_unit_is_one_instruction_of_comgrs(tmp_path):
    for unit in UNITS["gfx90a"].values():
        target = replace(amd_target("gfx90a"), matrix_units=(unit,), rounding_units=())
        x, y = (whole(64, 64, dtype=unit.dtype).cast(unit.sums) for _ in range(2))
        text = HIPRenderer(target).render("k", lowered(x @ y, target), ())
        code = ComgrCompiler(target)
        if code.available():
            pytest.skip(code.available())
        found = re.findall(r"v_mfma\w+", assembly(code.compile(text), "gfx90a", tmp_path))
        assert {one.removesuffix("_e64") for one in found} == {unit.instruction}


@pytest.mark.parametrize("chip", [chip for chip in UNITS if chip != "gfx90a"])
def test_each_matrix_unit_is_one_instruction_of_a_newer_clangs(chip):
    for unit in UNITS[chip].values():
        target = replace(amd_target(chip), matrix_units=(unit,), rounding_units=())
        x, y = (whole(64, 64, dtype=unit.dtype).cast(unit.sums) for _ in range(2))
        text = HIPRenderer(target).render("k", lowered(x @ y, target), ())
        found = re.findall(r"v_(?:wmma|mfma)\w+", by_newest_clang(chip, text, "-S"))
        assert {one.removesuffix("_e64") for one in found} == {unit.instruction}


@pytest.mark.parametrize("chip", AMD_CHIPS)
def test_a_product_that_is_rounded_to_halves_is_not_fused_with_0(chip):
    """Which would make +0 of -0."""
    x, y, half = floats(300), floats(300).flip(0), floats(300).half().realize()
    for product in (x * y, x * half.float(), half.float() * half.flip(0).float()):
        phases = lowered(product.half(), amd_target(chip))
        text = by_newest_clang(chip, HIPRenderer(amd_target(chip)).render("k", phases, ()), "-S")
        assert re.search(r"v_(?:pk_)?mul_f|v_dual_mul_f", text)
        assert not re.search(r"v_\w*(?:mix|fma|mac)", text)


@pytest.mark.parametrize("chip", [chip for chip in AMD_CHIPS if chip not in OF_COMGR])
def test_a_newer_clang_takes_kernels_for_newer_chips(chip):
    text = HIPRenderer(amd_target(chip)).render("k", phases_for(chip), ())
    assert by_newest_clang(chip, text, "-fsyntax-only") == ""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx950", "gfx1201"])
def test_attention_keeps_weights_in_registers(chip, dtype):
    """Powers of two are one instruction, and so is each product; nothing else is in memory."""
    target, kind = amd_target(chip), getattr(dtypes, dtype)
    heads = [Tensor.full((96, 64), n, dtype=kind, device="CPU").contiguous() for n in range(3)]
    Tensor.realize(*heads)
    q, k, v = heads
    (phase,) = lowered(q.scaled_dot_product_attention(k, v), target)
    text = by_newest_clang(chip, HIPRenderer(target).render("k", [phase], ()), "-S")
    units = {unit.name: unit.instruction for unit in target.matrix_units}
    found = re.findall(r"v_(?:wmma|mfma)\w+", text)
    assert {one.removesuffix("_e64") for one in found} == {units[dtype]}
    assert "v_exp_f32" in text
    assert "v_ldexp" not in text  # of powers that have denormals


@pytest.mark.parametrize("chip", ["gfx90a", "gfx1030"])
def test_the_text_of_small_kernels_is_as_recorded(chip, golden):
    target, x = amd_target(chip), floats(100, 70)
    texts = [
        HIPRenderer(target).render("k", lowered(value, target), ())
        for value in (x.sum(1), (x > 0).any(1), (x * 2 + 1).maximum(0).cast(dtypes.int32))
    ]
    golden(f"hip_{chip}.hip", "\n".join(texts))
