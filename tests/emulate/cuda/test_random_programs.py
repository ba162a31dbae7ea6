"""Random programs give on the emulated GPU, through NVRTC, what a C compiler makes of them here."""

import ctypes
import os
import shutil
import subprocess

import numpy as np
import pytest

from .random_programs import NAMES, PARAMETERS, RandomProgram, helpers
from .test_programs import compiled

COUNT = 96
ARCHITECTURES = ("sm_75", "sm_80", "sm_90a", "sm_100", "sm_120")
DEVICE = ("__noinline__", "__forceinline__", "")
SEEDS = range(300 if "FULL_TESTS" in os.environ else 8)
_POINTERS = ", ".join(f"const {NAMES[kind]} *{name}" for name, kind in PARAMETERS.items())
_ELEMENTS = ", ".join(f"{name}[i]" for name in PARAMETERS)


def inputs():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 1 << 32, COUNT, dtype="u4")
    b = rng.integers(-(1 << 31), 1 << 31, COUNT).astype("i4")
    a[:4], b[:4] = [0, 1, 0xFFFFFFFF, 77], [0, -1, 5, -(1 << 31)]
    c, d = (rng.standard_normal(COUNT) * 100).astype("f4"), rng.standard_normal(COUNT) * 1e4
    return [a, b, c, d, rng.integers(-(1 << 62), 1 << 62, COUNT)]


def on_the_host(program, folder):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a C compiler is needed")
    (folder / "program.c").write_text(
        "#include <math.h>\n#define DEV static __attribute__((noinline))\n"
        f"{helpers()}\n{program}\nvoid run(unsigned long long *out, {_POINTERS}) "
        f"{{ for (int i = 0; i < {COUNT}; i++) out[i] = body({_ELEMENTS}); }}"
    )
    command = [compiler, "-O1", "-w", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC"]
    command += ["program.c", "-o", "program.so", "-lm"]
    subprocess.run(command, check=True, cwd=folder)
    found, arrays = np.zeros(COUNT, "u8"), inputs()
    places = [ctypes.c_void_p(array.ctypes.data) for array in (found, *arrays)]
    ctypes.CDLL(str(folder / "program.so")).run(*places)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_computes_what_the_host_does(gpus, tmp_path, seed):
    program, arch = RandomProgram(seed).text(), ARCHITECTURES[seed % len(ARCHITECTURES)]
    source = (
        f"#define DEV static __device__ {DEVICE[seed % len(DEVICE)]}\n{helpers()}\n{program}\n"
        f'extern "C" __global__ void run(unsigned long long *out, {_POINTERS}) '
        f"{{ int i = threadIdx.x; out[i] = body({_ELEMENTS}); }}"
    )
    image = compiled(source, arch, "--fmad=false")
    found = gpus(arch).launch(image, "run", 1, COUNT, np.zeros(COUNT, "u8"), *inputs())[0]
    np.testing.assert_array_equal(found, on_the_host(program, tmp_path))
