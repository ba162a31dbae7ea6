"""Functions of ROCm's device libraries as kernels: `out[i] = f(a[i], b[i])` of one C symbol.

The libraries are LLVM bitcode, which the embedded LLVM links to a kernel and compiles.
"""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm

from treadle.emulate.amd.table import generation

__all__ = ["function_object"]

# Choices that the libraries take as constants: exact everywhere, with infinities and subnormals.
_CHOICES = (
    "correctly_rounded_sqrt_on", "daz_opt_off", "finite_only_off", "unsafe_math_off",
)  # fmt: skip
_KERNEL = """
target triple = "amdgcn-amd-amdhsa"
@__oclc_ISA_version = addrspace(4) constant i32 {version}
declare i32 @llvm.amdgcn.workitem.id.x()
declare {type} @{name}({types})
define amdgpu_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %a, ptr addrspace(1) %b) #0 {{
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr {type}, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr {type}, ptr addrspace(1) %b, i32 %i
  %po = getelementptr {type}, ptr addrspace(1) %out, i32 %i
  %va = load {type}, ptr addrspace(1) %pa
  %vb = load {type}, ptr addrspace(1) %pb
  %r = call {type} @{name}({values})
  store {type} %r, ptr addrspace(1) %po
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="64,64" }}
"""


def function_object(folder: Path, chip: str, name: str, bits: int, arguments: int) -> bytes:
    """The object file of a kernel `k` that calls a function of the libraries for 64 work items."""
    type = {32: "float", 64: "double"}[bits]
    text = _KERNEL.format(
        name=name, type=type, version=_version(chip), types=", ".join([type] * arguments),
        values=", ".join(f"{type} %v{letter}" for letter in "ab"[:arguments]),
    )  # fmt: skip
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    wave = "on" if generation(chip) == 9 else "off"
    names = ("ocml", "ockl", f"oclc_wavefrontsize64_{wave}", *(f"oclc_{c}" for c in _CHOICES))
    for library in names:
        module.link_in(llvm.parse_bitcode((folder / f"{library}.bc").read_bytes()))
    for one in (*module.functions, *module.global_variables):
        if not one.is_declaration and one.name != "k":
            one.linkage = llvm.Linkage.internal
    machine = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu=chip, opt=2)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def _version(chip: str) -> int:
    """11000 of gfx1100, 9010 of gfx90a: the stepping is a digit of base 16."""
    digits = chip.removeprefix("gfx")
    return int(digits[:-2]) * 1000 + int(digits[-2], 16) * 100 + int(digits[-1], 16)
