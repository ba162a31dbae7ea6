"""Functions of ROCm's device libraries as kernels: `out[i] = f(a[i], b[i]...)` of one C symbol.

The libraries are LLVM bitcode, which the embedded LLVM links to a kernel and compiles.
"""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm

from treadle.emulate.amd.table import generation

__all__ = ["ITEMS", "function_object"]

# Choices that the libraries take as constants: exact everywhere, with infinities and subnormals.
_CHOICES = (
    "correctly_rounded_sqrt_on", "daz_opt_off", "finite_only_off", "unsafe_math_off",
)  # fmt: skip
ITEMS = 64
_KERNEL = """
target triple = "amdgcn-amd-amdhsa"
@__oclc_ISA_version = addrspace(4) constant i32 {version}
declare i32 @llvm.amdgcn.workitem.id.x()
declare {result} @{name}({types})
define amdgpu_kernel void @k({places}) #0 {{
  %i = call i32 @llvm.amdgcn.workitem.id.x()
{loads}
  %r = call {result} @{name}({given})
{last}
  %to = getelementptr {stored}, ptr addrspace(1) %p0, i32 %i
  store {stored} {value}, ptr addrspace(1) %to
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="64,64" }}
"""


def function_object(
    folder: Path, chip: str, name: str, result: str, types: tuple[str, ...],
    constants: tuple[str, ...] = (),
) -> bytes:  # fmt: skip
    """The object file of a kernel `k` that calls a function of the libraries for 64 work items.

    Its arguments are the places of the results and of each argument. `constants` are further ones
    of the function. Conditions are stored as i32.
    """
    names = [f"%a{n}" for n in range(len(types))]
    loads = [
        f"  %q{n} = getelementptr {of}, ptr addrspace(1) %p{n + 1}, i32 %i\n"
        f"  %a{n} = load {of}, ptr addrspace(1) %q{n}"
        for n, of in enumerate(types)
    ]
    given = [f"{of} {one}" for of, one in zip(types, names, strict=True)] + list(constants)
    is_condition = result == "i1"
    text = _KERNEL.format(
        name=name, result=result, version=_version(chip), loads="\n".join(loads),
        types=", ".join(one.rsplit(" ", 1)[0] for one in given), given=", ".join(given),
        places=", ".join(f"ptr addrspace(1) %p{n}" for n in range(len(types) + 1)),
        last="  %w = zext i1 %r to i32" if is_condition else "",
        stored="i32" if is_condition else result, value="%w" if is_condition else "%r",
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
