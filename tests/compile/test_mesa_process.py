"""The process of Mesa's compiler: what ends it, and that a new one takes its place."""

import signal
import sys
import threading

import pytest

from treadle.child import Child
from treadle.compile import mesa_process
from treadle.compile.mesa_process import compile_beside
from treadle.errors import InternalError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no signals on Windows")


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """A module that does what the text says, in the place of Mesa's compiler."""

    def end():
        if mesa_process._running:
            mesa_process._end()

    end()
    monkeypatch.setattr(mesa_process, "_MODULE", "tests.compile.mesa_stand_in")
    yield
    end()


def process():
    return mesa_process._running[0][1].process


def test_one_process_serves_texts_one_behind_the_other():
    assert compile_beside("a630", "one") == b"a630 one"
    first = process()
    assert compile_beside("a650", "two") == b"a650 two"
    assert process() is first


@pytest.mark.parametrize(
    ("text", "told"),
    [("abort", r"ended with signal 6, as an assertion of Mesa's"), ("exit", "with status 3")],
)
def test_a_text_that_ends_the_process_is_an_error_and_the_next_one_has_another(text, told):
    with pytest.raises(InternalError, match=rf"the process of Mesa's compiler.*{told}"):
        compile_beside("a630", text)
    assert compile_beside("a630", "next") == b"a630 next"


def test_what_is_refused_is_an_error_and_the_process_goes_on():
    compile_beside("a630", "one")
    first = process()
    with pytest.raises(InternalError, match=r"^refused"):
        compile_beside("a630", "refuse")
    assert process() is first


def test_a_text_that_takes_too_long_is_an_error(monkeypatch):
    compile_beside("a630", "one")  # the start does not count
    monkeypatch.setattr(mesa_process, "_SECONDS", 0.2)
    with pytest.raises(InternalError, match=r"took more than 0\.2 s"):
        compile_beside("a630", "wait")


def test_a_process_that_was_killed_meanwhile_is_replaced():
    compile_beside("a630", "one")
    process().send_signal(signal.SIGKILL)
    process().wait()
    assert compile_beside("a630", "two") == b"a630 two"


def test_an_interrupted_text_leaves_no_answer_for_the_next_one(monkeypatch):
    def interrupt(self, seconds):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Child, "receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compile_beside("a630", "one")
    assert not mesa_process._running
    assert compile_beside("a630", "two") == b"a630 two"


def test_a_process_of_before_a_fork_is_left_alone():
    compile_beside("a630", "one")
    old = process()
    mesa_process._running[0][1].started_by = 0  # as in a child of the process that started it
    assert compile_beside("a630", "two") == b"a630 two"
    assert process() is not old


def test_another_library_has_another_process(monkeypatch):
    compile_beside("a630", "one")
    old = process()
    monkeypatch.setenv("MESA_LIBRARY", "/another/libtinymesa.so")
    compile_beside("a630", "two")
    assert process() is not old
    assert old.poll() is not None


def test_threads_get_the_answers_to_their_texts():
    found = {}

    def ask(number):
        for n in range(20):
            text = f"{number} {n}"
            found[text] = compile_beside("a630", text)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    assert all(answer == f"a630 {text}".encode() for text, answer in found.items())


def test_a_program_that_embeds_python_compiles_in_its_own_process(monkeypatch):
    monkeypatch.setattr(mesa_process, "available", lambda: False)
    monkeypatch.setattr(mesa_process, "compile_here", lambda chip, text: b"here")
    assert compile_beside("a630", "one") == b"here"
    assert not mesa_process._running


def test_a_process_that_cannot_start_is_an_error(monkeypatch):
    def refuse(module):
        raise OSError("no more processes")

    monkeypatch.setattr(mesa_process, "Child", refuse)
    with pytest.raises(InternalError, match="could start: no more processes"):
        compile_beside("a630", "one")
