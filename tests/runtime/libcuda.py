"""A libcuda of our own, for tests of NVIDIA's bindings: made by NVIDIA's header, for processes."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


def header_folder():
    """Where NVIDIA's wheels put cuda.h; None if it is not installed."""
    for name in ("nvidia.cu13", "nvidia.cuda_runtime"):
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            continue
        for place in (found and found.submodule_search_locations) or ():
            if (pathlib.Path(place) / "include" / "cuda.h").exists():
                return pathlib.Path(place) / "include"
    return None


def runner(folder):
    """Runs Python code beside the stub: what it prints, and the calls that arrived there."""
    include, compiler = header_folder(), shutil.which("cc")
    if importlib.util.find_spec("cuda.bindings") is None or include is None or compiler is None:
        pytest.skip("cuda-bindings, cuda.h (nvidia-cuda-runtime) and a C compiler are needed")
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-I{include}", "-Wl,-soname,libcuda.so.1", "-o",
         folder / "libcuda.so.1", HERE / "libcuda_stub.c", "-ldl"], check=True,
    )  # fmt: skip

    def run(code, **variables):
        log = folder / "log"
        log.write_text("")
        paths = {"LD_LIBRARY_PATH": str(folder), "STUB_LOG": str(log)}
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **paths, **variables}, text=True,
            capture_output=True, timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), log.read_text().splitlines()

    return run
