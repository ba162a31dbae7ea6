"""The messages that are played, beside what pyobjc publishes of Metal's."""

from __future__ import annotations

import sys
from types import ModuleType

from treadle.emulate.metal.signatures import SIGNATURES, arguments_of

from ..judges import judge

# Methods without blocks, arrays or errors of classes, which pyobjc asks Objective-C for itself.
UNLISTED = {
    "code", "localizedDescription", "setMathMode:", "setLanguageVersion:", "setComputeFunction:",
    "setMaxTotalThreadsPerThreadgroup:", "setCommandTypes:", "setMaxKernelBufferBindCount:",
}  # fmt: skip
SHORT = {"{MTLSize=QQQ}": "S", "{_NSRange=QQ}": "R"}


def published() -> dict[str, list[tuple[str, list[str]]]]:
    """For each selector, what its methods return and take."""
    text = (judge("pyobjc") / "Metal" / "_metadata.py").read_text()
    found: dict[str, list[tuple[str, list[str]]]] = {}

    def encoding(argument):
        parts = (argument.get("type_modifier", b""), argument["type"])
        spelled = "".join(part.decode() if isinstance(part, bytes) else part for part in parts)
        return SHORT.get(spelled, spelled)

    def register(of_class, selector, facts):
        arguments = facts.get("arguments", {})
        returned = facts.get("retval", {}).get("type", b"").decode()
        takes = [encoding(arguments[number]) for number in sorted(arguments)]
        found.setdefault(selector.decode(), []).append((returned, takes))

    objc = ModuleType("objc")
    objc.__getattr__ = lambda name: lambda *args, **options: None
    objc.registerMetaDataForSelector, objc._C_ID = register, b"@"
    before = sys.modules.get("objc")
    sys.modules["objc"] = objc
    try:
        exec(compile(text, "_metadata.py", "exec"), {})
    finally:
        del sys.modules["objc"]
        if before is not None:
            sys.modules["objc"] = before
    return found


def test_signatures_are_those_that_pyobjc_publishes():
    found = published()
    assert UNLISTED == SIGNATURES.keys() - found.keys()
    for selector in SIGNATURES.keys() - UNLISTED:
        for returned, takes in found[selector]:
            assert takes == arguments_of(selector), selector
            assert returned in ("", SIGNATURES[selector][: len(returned)]), selector


def test_selectors_have_as_many_arguments_as_colons():
    for selector in SIGNATURES:
        assert len(arguments_of(selector)) == selector.count(":"), selector
