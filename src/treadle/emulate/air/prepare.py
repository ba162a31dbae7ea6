"""A module becomes text whose kernels call nothing but built-in functions.

    text_of(bitcode)
    text_of(bitcode, {20: True})        # with values of function constants, by their index

Kernels of Apple's compiler are optimised already. What is left to do: calls of the module's own
functions are inlined, and function constants, which a pipeline would give, become constants. Their
initial values lie in variables that are named after their index, and a constructor makes of them
what kernels read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from treadle.emulate.air.syntax import AIRError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llvmlite.binding import ModuleRef

__all__ = ["text_of"]

# What a constructor makes of a bool that the host gave: 0 or 1.
_PREDICATE = "air.normalize_function_constant_predicate.i8"
_PREDICATE_BODY = f"""
define internal i8 @{_PREDICATE}(i8 %given) {{
  %some = icmp ne i8 %given, 0
  %one = zext i1 %some to i8
  ret i8 %one
}}
"""
_DECLARED = re.compile(rf"^declare i8 @{re.escape(_PREDICATE)}\(.*$", re.MULTILINE)
_GIVEN = re.compile(
    r"^(@[^=]*\.MTL_FC_INIT_(\d+)_\w+\"? = internal [^\n]*?)externally_initialized constant "
    r"(\w+) undef",
    re.MULTILINE,
)


def text_of(module: bytes, constants: Mapping[int, int] | None = None) -> str:
    """The text of a module, bitcode or text. Raises AIRError for what LLVM does not read.

    Function constants that are not given are 0.
    """
    text = str(_parse(module))
    given = _GIVEN.search(text) is not None
    if given:
        text = _set_constants(text, constants or {})
    if not given and not _calls_own(text):
        return text
    return _inlined(text)


def _parse(module: bytes) -> ModuleRef:
    import llvmlite.binding as llvm

    try:
        if module[:2] == b"BC" or module[:4] == b"\xde\xc0\x17\x0b":
            return llvm.parse_bitcode(module)
        return llvm.parse_assembly(module.decode())
    except (RuntimeError, UnicodeDecodeError) as error:
        raise AIRError(f"this is no module of LLVM: {error}") from error


def _set_constants(text: str, constants: Mapping[int, int]) -> str:
    """Gives function constants their values, and the constructor what it calls."""

    def give(found: re.Match[str]) -> str:
        return f"{found[1]}constant {found[3]} {int(constants.get(int(found[2]), 0))}"

    text = _GIVEN.sub(give, text)
    text = _DECLARED.sub(_PREDICATE_BODY, text)
    # A pass that runs constructors asks for their plain form.
    return text.replace(' section "air.static_init"', "")


def _calls_own(text: str) -> bool:
    """Whether a function calls another one of the module."""
    names = re.findall(r'^define [^@]*(@"[^"]*"|@[\w.$-]+)\(', text, re.MULTILINE)
    return any(re.search(rf"call [^\n]*{re.escape(name)}\(", text) for name in names)


def _kernels(text: str) -> set[str]:
    """The names in `!air.kernel`, whose nodes begin with the functions."""
    listed = re.search(r"^!air\.kernel = !\{(.*)\}$", text, re.MULTILINE)
    nodes = re.findall(r"!\d+", listed[1]) if listed else []
    heads = (
        re.search(rf'^{node} = [^@\n]*@("[^"]*"|[\w.$-]+)', text, re.MULTILINE) for node in nodes
    )
    return {head[1].strip('"') for head in heads if head}


def _inlined(text: str) -> str:
    """The text with all functions that are no kernels put in place of their calls."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    text = re.sub(r"\bnoinline\b", "", text)
    module = llvm.parse_assembly(text)
    module.triple = ""
    kernels = _kernels(text)
    for function in module.functions:
        if not function.is_declaration and function.name not in kernels:
            function.linkage = "internal"
            function.add_function_attribute("alwaysinline")
    # Nothing of this machine shows in what these passes do.
    machine = llvm.Target.from_default_triple().create_target_machine()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_opt_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    return str(module)
