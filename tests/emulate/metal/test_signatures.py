"""The messages that are played, beside what pyobjc publishes of Metal's."""

from __future__ import annotations

import re
import sys
from types import ModuleType

from treadle.emulate.metal.signatures import SIGNATURES, arguments_of

from ..judges import judge

# Methods without blocks, arrays or errors of classes, which pyobjc asks Objective-C for itself.
UNLISTED = {
    "code", "localizedDescription", "setMathMode:", "setLanguageVersion:", "setComputeFunction:",
    "setMaxTotalThreadsPerThreadgroup:", "setCommandTypes:", "setMaxKernelBufferBindCount:",
}  # fmt: skip
# pyobjc says that both are numbers, where Metal's header has two MTLSize.
WRONG = {"concurrentDispatchThreadgroups:threadsPerThreadgroup:"}
SHORT = {"{MTLSize=QQQ}": "S", "{_NSRange=QQ}": "R"}


def published() -> dict[str, list[tuple[str, list[str]]]]:
    """For each selector, what its methods return and take."""
    text = (judge("pyobjc") / "Metal" / "_metadata.py").read_text()
    found: dict[str, list[tuple[str, list[str]]]] = {}

    def text_of(part):
        return part.decode() if isinstance(part, bytes) else part

    def encoding(argument):
        parts = (argument.get("type_modifier", b""), argument.get("type", b"?"))
        spelled = "".join(map(text_of, parts))
        return SHORT.get(spelled, spelled)

    def register(of_class, selector, facts):
        arguments = facts.get("arguments", {})
        returned = text_of(facts.get("retval", {}).get("type", b""))
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
    for selector in SIGNATURES.keys() - UNLISTED - WRONG:
        # pyobjc writes q for some numbers without a sign, which Python's numbers do not tell apart.
        ours = [encoding.replace("q", "Q") for encoding in arguments_of(selector)]
        for returned, takes in found[selector]:
            assert "?" in takes or [one.replace("q", "Q") for one in takes] == ours, selector
            assert SIGNATURES[selector].startswith(returned), selector


def test_selectors_are_those_of_apples_own_headers_for_cpp():
    text = (judge("mlx") / "mlx/include/metal_cpp/Metal/MTLHeaderBridge.hpp").read_text()
    listed = {name.strip() for name in re.findall(r"DEF_SEL\(\w+,\s*\"([^\"]+)\"\)", text)}
    assert SIGNATURES.keys() - listed <= {"code", "localizedDescription"}  # of NSError


def test_selectors_have_as_many_arguments_as_colons():
    for selector in SIGNATURES:
        assert len(arguments_of(selector)) == selector.count(":"), selector
