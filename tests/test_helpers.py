"""Small conveniences: variables, colours, timing and bars."""

import pytest

from treadle.errors import SettingError
from treadle.helpers import Timing, colored, getenv, tqdm, trange


def test_getenv_reads_a_variable_as_the_type_of_its_default(monkeypatch):
    monkeypatch.setenv("STEPS", "12")
    assert (getenv("STEPS"), getenv("STEPS", 0.5), getenv("STEPS", "x")) == (12, 12.0, "12")
    assert getenv("STEPS", False) is True
    assert getenv("NO_SUCH_VARIABLE", 7) == 7


def test_getenv_names_the_variable_whose_text_does_not_fit(monkeypatch):
    monkeypatch.setenv("STEPS", "many")
    with pytest.raises(SettingError, match="STEPS=many is not allowed: STEPS is read as int"):
        getenv("STEPS", 3)


def test_colored_wraps_text_unless_colours_are_off(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colored("hi", "red") == "\x1b[31mhi\x1b[0m"
    assert colored("hi", "GREEN", background=True) == "\x1b[102mhi\x1b[0m"
    assert colored("hi", None) == "hi"
    monkeypatch.setenv("NO_COLOR", "1")
    assert colored("hi", "red") == "hi"


def test_timing_prints_its_prefix_and_keeps_the_nanoseconds(capsys):
    with Timing("load: ", lambda ns: f" ({ns >= 0})") as timing:
        pass
    out = capsys.readouterr().out
    assert out.startswith("load: ")
    assert out.endswith(" ms (True)\n")
    assert timing.elapsed > 0


def test_a_bar_off_a_terminal_only_iterates(capsys):
    assert list(trange(3, desc="work")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal_draws_and_follows_its_description(capsys):
    bar = tqdm("ab", desc="first", disable=False)
    for letter in bar:
        bar.set_description(f"at {letter}")
    assert "at b" in capsys.readouterr().err
