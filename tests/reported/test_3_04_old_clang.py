"""A clang that is older than the processor compiles for it all the same."""

import os
import stat
from dataclasses import replace

import pytest

from treadle.backends import cpu
from treadle.compile import ClangCompiler, LLVMCompiler
from treadle.engine.inventory import inventory
from treadle.target import host_target

TWICE = "define i32 @twice(i32 %x) { %y = add i32 %x, %x ret i32 %y }"


@pytest.mark.skipif(os.name != "posix", reason="uses a shell script as a compiler")
def test_3_04_a_clang_older_than_the_processor_compiles_for_the_newest_cpu_that_it_knows(
    monkeypatch, tmp_path
):
    """Doctor said that it could be used, and then every kernel failed."""
    host = host_target()
    if host.arch != "x86_64":
        pytest.skip("the processor below is of x86-64")
    made = tmp_path / "twice.o"
    made.write_bytes(LLVMCompiler(host).compile(TWICE))
    clang = tmp_path / "clang"
    clang.write_text(f"""#!/bin/sh
    case "$*" in
      *--version*) echo "Debian clang version 14.0.6" ;;
      *-march=znver[45]*) echo "error: unknown target CPU" >&2; exit 1 ;;
      *) exec /bin/cat {made} ;;
    esac
    """)
    clang.chmod(clang.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    newer = replace(host, cpu="znver5")
    assert ClangCompiler(newer).compile("int twice(int x) { return x + x; }") == made.read_bytes()
    monkeypatch.setattr(cpu, "host_target", lambda: newer)
    (row,) = (row for row in inventory() if row.compiler == "CLANG")
    assert row.usable
    assert row.reason == "Debian clang version 14.0.6, for znver3, as it knows no znver5"
