"""One clang for several texts: the same code as of one for each, whatever becomes of it."""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading

import pytest

from treadle.emulate.air import clang as module
from treadle.emulate.air import compile_server, find_clang, needed_clang
from treadle.emulate.air.clang import Clang
from treadle.errors import DeviceError

from .conftest import HEAD

pytestmark = [
    pytest.mark.skipif(find_clang() is None, reason="no clang 15 or newer"),
    pytest.mark.skipif(sys.platform == "win32", reason="no pipes by number on Windows"),
]


def text(n):
    return (
        f"{HEAD}kernel void k{n}(device float *a [[buffer(0)]]) {{ a[{n}] = exp(a[1]); }}".encode()
    )


@pytest.fixture
def clang():
    """A clang that has read nothing yet."""
    try:
        found = Clang(needed_clang())
    except DeviceError as error:
        pytest.skip(str(error))
    yield found
    found._server.close()


@pytest.fixture
def served(clang, monkeypatch):
    """served(n) is the IR of a text, which has to come from the server."""
    monkeypatch.setattr(Clang, "_alone", lambda *_: pytest.fail("a text had its own process"))
    return lambda n: clang.run(text(n)).stdout


def is_of(ir, n):
    return f"@k{n}(".encode() in ir


def pid(clang):
    return clang._server._process._process.pid


def test_one_process_makes_what_others_make_one_by_one(clang):
    made = [clang.run(text(n)).stdout for n in range(6)]
    first = pid(clang)
    clang._server.close()
    assert made == [module._NAMES.sub(b"", clang._alone(text(n)).stdout) for n in range(6)]
    assert made[:1] == [clang.run(text(0)).stdout]
    assert pid(clang) != first


def test_there_is_another_process_behind_the_last_text_of_one(clang, served, monkeypatch):
    monkeypatch.setattr(compile_server, "_TEXTS", 2)
    pids = []
    for n in range(5):
        assert is_of(served(n), n)
        pids.append(pid(clang))
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


def test_a_text_may_be_longer_than_a_pipe_takes(clang, served):
    long = b"// a comment\n" * 50_000 + text(1)
    assert is_of(clang.run(long).stdout, 1)
    many = b"".join(text(n).removeprefix(HEAD.encode()) + b"\n" for n in range(300))
    ir = clang.run(HEAD.encode() + many).stdout
    assert len(ir) > 1 << 17
    assert all(is_of(ir, n) for n in range(300))


def test_what_is_wrong_is_said_of_its_own_text(clang):
    assert is_of(clang.run(text(0)).stdout, 0)
    for _ in range(2):
        done = clang.run(text(1).replace(b"exp", b"nowhere"))
        assert done.returncode
        assert b"nowhere" in done.stderr
        assert b"<stdin>:3:" in done.stderr
        assert is_of(clang.run(text(2)).stdout, 2)


def test_a_warning_is_no_error(clang, served):
    warns = text(0).replace(b"{ a", b"{ float f(); int unused = 1.5; a")
    assert is_of(clang.run(warns).stdout, 0)


def test_a_process_that_was_killed_is_replaced(clang):
    assert is_of(clang.run(text(0)).stdout, 0)
    before = pid(clang)
    os.kill(before, signal.SIGKILL)
    assert [is_of(clang.run(text(n)).stdout, n) for n in (1, 2)] == [True, True]
    assert pid(clang) != before


def test_a_process_that_hangs_is_given_up(clang, monkeypatch):
    assert is_of(clang.run(text(0)).stdout, 0)
    before = pid(clang)
    os.kill(before, signal.SIGSTOP)
    monkeypatch.setattr(compile_server, "_TIMEOUT_SECONDS", 0.2)
    assert is_of(clang.run(text(1)).stdout, 1)
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)


def test_an_interrupt_leaves_no_text_in_between(clang, monkeypatch):
    assert is_of(clang.run(text(0)).stdout, 0)

    class Interrupted(selectors.DefaultSelector):
        def select(self, timeout=None):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(compile_server.selectors, "DefaultSelector", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            clang.run(text(1))
    assert is_of(clang.run(text(2)).stdout, 2)


def test_threads_get_their_own_texts(clang, served):
    found = {}

    def work(first):
        for n in range(first, first + 5):
            found[n] = is_of(served(n), n)

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [True] * 20


def test_a_fork_has_a_process_of_its_own_and_keeps_none_waiting(clang, served):
    """A child that held its parent's pipes would keep the parent's texts from ending."""
    assert is_of(served(0), 0)
    mine = pid(clang)
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        good = is_of(served(1), 1) and pid(clang) != mine
        os.read(heard, 1)  # lives on while its parent compiles
        clang._server.close()
        os._exit(not good)
    os.close(heard)
    try:
        assert [is_of(served(n), n) for n in (2, 3)] == [True, True]
        assert pid(clang) == mine
    finally:
        os.close(told)
        status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == 0
    assert is_of(served(4), 4)


def test_a_server_that_is_let_go_leaves_no_process(clang):
    clang.run(text(0))
    process = clang._server._process._process
    files = [process.stdout.fileno(), process.stderr.fileno()]
    clang._server.close()
    assert process.returncode is not None
    for file in files:
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(file)


def test_without_pipes_by_number_each_text_has_a_process(clang, monkeypatch):
    def none(*_, **__):
        raise OSError("no pipes")

    server = clang._server
    with monkeypatch.context() as patched:
        patched.setattr(compile_server.os, "pipe", none)
        assert server.compile(text(0)) is None
    assert is_of(clang.run(text(0)).stdout, 0)


def test_the_command_is_what_clang_says_that_it_starts():
    assert module._frontend('clang version 22\n "/bin/ld" "-o" "a.out"\n') == []
    assert module._frontend(' "/a b/clang" "-cc1" "-disable-free" "-x" "clcpp" "-"\n') == [
        "/a b/clang", "-cc1", "-x", "clcpp",
    ]  # fmt: skip


def test_a_part_of_a_module_is_not_taken_for_all_of_it(clang):
    ir = clang.run(text(0)).stdout
    lines = ir.splitlines(keepends=True)
    wholes = [n for n in range(len(lines) + 1) if compile_server._is_whole(b"".join(lines[:n]))]
    assert wholes == [len(lines)]
    assert not compile_server._is_whole(ir[:-1])
