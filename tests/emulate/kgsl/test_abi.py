"""The driver's calls beside `msm_kgsl.h`, as a compiler of C lays its structures out."""

import re
import shutil
import subprocess

import pytest
from tests.emulate.judges import judge

from treadle.emulate.kgsl.abi import CALLS, COMMAND, DEVICE_INFO, VERSION

STRUCTURES = {
    "command_object": COMMAND,
    "devinfo": DEVICE_INFO,
    "version": VERSION,
    **{name: layout for name, layout in CALLS.values() if name != "setproperty"},
}


def test_numbers_and_offsets_are_those_of_the_header(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no cc: a compiler of C")
    header = judge("mesa") / "src" / "freedreno" / "vulkan" / "msm_kgsl.h"
    lines = ["#define __user", f'#include "{header}"', "#include <stddef.h>", "#include <stdio.h>",
             "int main(void) {"]  # fmt: skip
    for name, layout in STRUCTURES.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct kgsl_{name}));')
        lines += [
            f'printf("{name}.{field} %zu %zu\\n", offsetof(struct kgsl_{name}, {field}), '
            f"sizeof(((struct kgsl_{name} *)0)->{field}));"
            for field in layout.fields
        ]
    for number, (name, _) in CALLS.items():
        lines.append(f'printf("{name}# %x {number:x}\\n", (unsigned)IOCTL_KGSL_{name.upper()});')
    source, program = tmp_path / "abi.c", tmp_path / "abi"
    source.write_text("\n".join([*lines, "return 0; }"]), encoding="utf-8")
    subprocess.run([compiler, "-w", source, "-o", program], check=True)
    told = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    for name, numbers in re.findall(r"(\S+) (.+)", told):
        if name.endswith("#"):
            real, ours = numbers.split()
            assert real == ours, name
        elif "." in name:
            structure, field = name.split(".")
            assert list(map(int, numbers.split())) == list(STRUCTURES[structure].fields[field])
        else:
            assert int(numbers) == STRUCTURES[name].nbytes, name
