"""Objects load side by side, find what they need, and leave nothing behind."""

import ctypes
import gc
import os

import pytest

from treadle.errors import InternalError, OutOfMemory
from treadle.runtime import loader
from treadle.runtime.loader import load_object

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def returning(compiler, number):
    return compiler.compile(f"define i64 @f(i64 %x) {{ %y = add i64 %x, {number}\n ret i64 %y }}")


def test_libraries_with_equal_symbols_do_not_clash(compiler):
    libraries = [load_object(returning(compiler, n), ["f"]) for n in range(5)]
    assert [FUNCTION(lib.address("f"))(100) for lib in libraries] == [100, 101, 102, 103, 104]
    del libraries[1:4]
    gc.collect()
    assert [FUNCTION(lib.address("f"))(7) for lib in libraries] == [7, 11]


def test_constants_and_system_functions_are_found(compiler):
    code = compiler.compile("""
        @table = private constant [3 x i64] [i64 10, i64 20, i64 30]
        declare i64 @labs(i64)
        define i64 @f(i64 %x) {
          %at = getelementptr i64, ptr @table, i64 %x
          %value = load i64, ptr %at
          %less = sub i64 0, %value
          %y = call i64 @labs(i64 %less)
          ret i64 %y
        }""")
    library = load_object(code, ["f"])
    assert [FUNCTION(library.address("f"))(i) for i in range(3)] == [10, 20, 30]


def test_imports_come_before_the_process(compiler):
    seven = load_object(returning(compiler, 7), ["f"])
    code = compiler.compile("""
        declare i64 @seven(i64)
        define i64 @f(i64 %x) {
          %y = call i64 @seven(i64 %x)
          ret i64 %y
        }""")
    library = load_object(code, ["f"], {"seven": seven.address("f")})
    assert FUNCTION(library.address("f"))(1) == 8


def test_code_is_refused_before_there_is_no_mapping_left(tmp_path, monkeypatch, compiler):
    def machine(mappings, most):
        for name, text in (
            ("self/maps", "a line\n" * mappings),
            ("sys/vm/max_map_count", f"{most}\n"),
        ):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    machine(100, 65530)
    loader._count_mappings(str(tmp_path))
    machine(61435, 65530)
    with pytest.raises(
        OutOfMemory, match=r"61435 memory mappings and Linux allows it 65530.*sysctl"
    ):
        loader._count_mappings(str(tmp_path))
    loader._count_mappings(str(tmp_path / "no such system"))
    counted = []
    monkeypatch.setattr(loader, "_count_mappings", lambda: counted.append(1))
    code = returning(compiler, 1)
    for _ in range(2 * loader._LIBRARIES_PER_COUNT):
        load_object(code, ["f"])
    assert len(counted) == 2


def test_a_missing_function_is_an_internal_error_and_named_on_stderr(compiler, capfd):
    code = compiler.compile(
        "declare void @no_such_function()\n"
        "define void @f() { call void @no_such_function()\n ret void }"
    )
    with pytest.raises(InternalError, match="loading f failed"):
        load_object(code, ["f"])
    assert "no_such_function" in capfd.readouterr().err


def test_a_broken_object_is_an_internal_error():
    with pytest.raises(InternalError, match="loading f failed"):
        load_object(b"this is no object file at all, only text", ["f"])


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
def test_unloading_gives_the_memory_back(compiler):
    code = returning(compiler, 1)

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def load_many(count):
        for _ in range(count):
            load_object(code, ["f"])

    load_many(200)
    before = resident()
    load_many(600)
    # Without unloading, each library would keep at least 8 KiB.
    assert resident() - before < 600 * 4096
