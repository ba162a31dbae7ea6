"""Programs through Mesa's compiler and ours on an emulated Adreno, in a process of their own.

    python -m tests.compile.mesa_programs softmax a630

An assertion of Mesa's ends the process that it fails in, so the tests start this one. It ends with
status 0 if what both compilers made gives the same bits, and they are those that are wanted: of
NumPy where the program has a NumPy form, else of the CPU, but for rounding.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tests.emulate.judges import judge

__all__ = ["CHIPS", "MOST_SECONDS", "names", "run"]

ROOT = Path(__file__).parents[2]
CHIPS = ("a630", "a650")  # without and with a scalar ALU, which Mesa uses where it is
MOST_SECONDS = 300
_BOUNDS = {"float16": 2e-3, "float32": 2e-5}  # parts of the largest number
TOO_LARGE = {"large matmul"}  # 134 million products, for which an emulated GPU takes minutes


def names():
    """Of the programs, those with a NumPy form first."""
    from tests.render.test_ir3 import PROGRAMS
    from tests.render.test_ir3_corpus import PROGRAMS as CORPUS_PROGRAMS

    return [*PROGRAMS, *(f"corpus {name}" for name in CORPUS_PROGRAMS if name not in TOO_LARGE)]


def run(name, chip, seconds=MOST_SECONDS):
    """Runs a program in another process. What it printed last if it failed, else None."""
    library = str(judge("tinymesa") / "tinymesa" / "libtinymesa.so")
    try:
        with tempfile.TemporaryDirectory() as folder:  # kernels of before are not taken
            done = subprocess.run(
                [sys.executable, "-m", __name__, name, chip], cwd=ROOT,
                env=os.environ | {"MESA_LIBRARY": library, "CACHE_DIR": folder},
                capture_output=True, text=True, check=False, timeout=seconds,
            )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end within {seconds} seconds"
    return None if done.returncode == 0 else f"status {done.returncode}: {done.stderr[-2000:]}"


def _results(name, devices):
    """What a program gives on each device, and what is wanted."""
    from tests.render import corpus
    from tests.render.test_ir3 import PROGRAMS

    from treadle import Tensor

    if name in PROGRAMS:
        arrays, program, expected = PROGRAMS[name]
        found = [program(*(Tensor(a, device=d) for a in arrays)).numpy() for d in devices]
        return [*found, np.asarray((expected or program)(*arrays))]
    found = []
    for device in (*devices, "CPU"):
        corpus.DEVICE.set(device)
        found.append(corpus.CORPUS[name.removeprefix("corpus ")]().numpy())
    return found


def main():
    """Raises AssertionError where results differ."""
    from tests.compile.adreno import AdrenoDevice

    from treadle.compile import mesa_ir3
    from treadle.runtime import null

    null.NullDevice = AdrenoDevice
    compiled, real = [], mesa_ir3.MesaIR3Compiler.compile

    def compile_(self, source):
        compiled.append(source)
        return real(self, source)

    mesa_ir3.MesaIR3Compiler.compile = compile_
    name, chip = sys.argv[1:]
    devices = [f"NULL:0:ADRENO:{chip}", f"NULL:0:IR3:{chip}"]
    ours, theirs, wanted = _results(name, devices)
    assert compiled, "Mesa's compiler was given nothing"
    assert ours.dtype == theirs.dtype
    assert ours.tobytes() == theirs.tobytes(), (ours, theirs)
    if theirs.dtype.name.startswith(("float8", "bfloat16")):  # NumPy knows no NaN of theirs
        theirs, wanted = theirs.astype(np.float32), wanted.astype(np.float32)
        np.testing.assert_array_equal(theirs, wanted)
    elif np.issubdtype(theirs.dtype, np.floating):
        bound = _BOUNDS[theirs.dtype.name]
        largest = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(theirs, wanted, bound, bound * largest)
    else:
        np.testing.assert_array_equal(theirs, wanted)


if __name__ == "__main__":
    main()
