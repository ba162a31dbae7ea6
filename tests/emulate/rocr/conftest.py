"""AMD's own programs on an emulated GPU, built and run where .ci/judges has put their libraries."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.emulate.judges import judge
from tests.emulate.rocr.served import Served

from treadle.emulate.amd.execute import Executor

FOLDER = Path(__file__).parent
LIBRARIES = "usr/lib/x86_64-linux-gnu"

collect_ignore_glob = [] if sys.platform == "linux" else ["*"]


class Programs:
    """What others built, what is built here, and the emulated GPU that they run on."""

    def __init__(self, root, folder, execute):
        self._root, self._folder, self._execute = root, folder, execute
        self._libraries = root / LIBRARIES

    def build(self, name, *flags):
        """A program or a library of a source file here, built by the machine's compiler."""
        made = self._folder / Path(name).stem
        command = ["gcc", "-O1", "-Wall", "-Werror", str(FOLDER / name), "-o", str(made), *flags]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return str(made)

    def hip(self, name):
        """A program for HIP."""
        return self.build(
            name, f"-isystem{self._root}/usr/include", f"-L{self._libraries}", "-lamdhip64",
            f"-Wl,-rpath-link,{self._libraries}",
        )  # fmt: skip

    def run(self, arch, *command, seed=0, **environment):
        """A program's end: (exit status, what it wrote)."""
        folder = self._folder / f"{len(list(self._folder.iterdir()))}"
        binaries = folder / "bin"
        binaries.mkdir(parents=True)
        loaded = binaries / "lsmod"  # by which rocminfo looks for the driver
        loaded.write_text("#!/bin/sh\necho amdgpu 1 0\n")
        loaded.chmod(0o755)
        shim = self.build("shim.c", "-shared", "-fPIC", "-ldl")
        given = {
            **os.environ, "LD_PRELOAD": shim, "LD_LIBRARY_PATH": str(self._libraries),
            "PATH": f"{binaries}:{self._root}/usr/bin:{os.environ['PATH']}", "HIP_CHIP": arch,
            "HIP_KERNELS": str(FOLDER / "kernels.hip"), **environment,
        }  # fmt: skip
        return Served(arch, self._execute, folder, seed).run(command, given)


@pytest.fixture(scope="session")
def programs(compile_ir, tmp_path_factory):
    if platform.machine() != "x86_64" or shutil.which("gcc") is None:
        pytest.skip("AMD's libraries are of x86-64, and need a compiler of C beside them")
    root = judge("rocr")
    return Programs(root, tmp_path_factory.mktemp("rocr"), Executor(compile_ir))
