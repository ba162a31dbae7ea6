"""LLVM's disassembler of AMD machine code, where llvm-mc-22 is installed."""

from __future__ import annotations

import re
import shutil
import subprocess

from treadle.emulate.amd.table import generation

PROGRAM = shutil.which("llvm-mc-22")
_MOST = 4096  # codes that the markers between them tell apart


def features(chip: str) -> list[str]:
    """Waves of 32, and halves of registers by their own names, which gfx11 and gfx12 have."""
    if generation(chip) == 9:
        return []
    return ["-mattr=+wavefrontsize32" + (",+real-true16" if generation(chip) > 10 else "")]


def disassemble(codes: list[bytes], chip: str) -> list[str | None]:
    """LLVM's text for each of `codes`; None where it is not one instruction of that length.

    Numbered s_nop stand between, by which the answer is taken apart. The program is started anew
    where it crashes, which it does on some instructions: the text of these is "".
    """
    if len(codes) > _MOST:
        return disassemble(codes[:_MOST], chip) + disassemble(codes[_MOST:], chip)
    lines = []
    for number, code in enumerate(codes):
        lines.append(f"[{','.join(map(hex, code))}]")
        lines.append(f"[{number & 255:#x},{0x40 | number >> 8:#x},0x80,0xbf]")
    ran = subprocess.run(
        [str(PROGRAM), "--disassemble", "--triple=amdgcn", f"-mcpu={chip}", *features(chip)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode < 0:
        half = len(codes) // 2
        return (
            [""] if not half else disassemble(codes[:half], chip) + disassemble(codes[half:], chip)
        )
    found: list[str | None] = []
    between: list[str] = []
    for line in ran.stdout.splitlines():
        marker = re.fullmatch(r"\s*s_nop 0x4(\w{3})", line.split("//")[0].rstrip())
        if marker and int(marker[1], 16) == len(found):
            found.append(between[0] if len(between) == 1 else None)
            between = []
        elif line.strip():
            between.append(line)
    assert len(found) == len(codes)
    return found


def normal(text: str) -> str:
    """Text without LLVM's comments, names of hardware registers and of buffer formats."""
    text = re.sub(r"/\*.*?\*/", "", text.split("//")[0])
    text = re.sub(r"hwreg\(\w+", "hwreg(*", re.sub(r" format:\S+", "", text))
    return re.sub(r"\s+", " ", text).strip()


def assemble(texts: list[str], chip: str) -> list[bytes | None]:
    """The code of each text; None where LLVM refuses it.

    The texts are numbered by lines of their own, which LLVM's output repeats.
    """
    source = "\n".join(f"{text}\ns_nop {number & 0xFFFF}" for number, text in enumerate(texts))
    ran = subprocess.run(
        [str(PROGRAM), "--show-encoding", "--triple=amdgcn", f"-mcpu={chip}", *features(chip)],
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    found: list[bytes | None] = []
    last: bytes | None = None
    for line in ran.stdout.splitlines():
        shown = re.search(r"encoding: \[([^\]]*)\]", line)
        if re.match(r"\s*s_nop ", line) and shown:
            number = int(line.split()[1], 0)
            if number == len(found) & 0xFFFF:
                found.append(last)
                last = None
                continue
        if shown:
            last = bytes(int(byte, 0) for byte in shown[1].split(","))
    assert len(found) == len(texts)
    return found
