"""Settings: environment text to checked values, and Context scopes."""

import asyncio
import threading
import warnings
from pathlib import Path

import pytest

from treadle.cli import settings_page
from treadle.config import Context, describe, settings
from treadle.errors import SettingError

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def fresh_environment(monkeypatch):
    for row in describe():
        for name in (row.name, "THREADS"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(f"TREADLE_{name}", raising=False)
    settings.reload()
    yield monkeypatch
    monkeypatch.undo()
    settings.reload()


def row(name):
    return next(r for r in describe() if r.name == name)


def test_a_setting_without_a_variable_has_its_default():
    assert (settings.DEBUG, settings.CPU_COUNT, settings.CACHE) == (0, 0, True)
    assert (settings.JIT, settings.DEFAULT_FLOAT, settings.TRAINING) == (1, "float32", False)


def test_a_variable_is_read_once_when_it_is_first_asked_for(monkeypatch):
    monkeypatch.setenv("DEBUG", "3")
    assert settings.DEBUG == 3
    monkeypatch.setenv("DEBUG", "4")
    assert settings.DEBUG == 3
    settings.reload()
    assert settings.DEBUG == 4


def test_the_prefixed_variable_overrules_the_plain_one(monkeypatch):
    monkeypatch.setenv("CPU_COUNT", "2")
    monkeypatch.setenv("TREADLE_CPU_COUNT", "5")
    assert settings.CPU_COUNT == 5
    assert row("CPU_COUNT").origin == "TREADLE_CPU_COUNT"


def test_an_empty_variable_counts_as_unset(monkeypatch):
    monkeypatch.setenv("DEBUG", "")
    assert settings.DEBUG == 0


def test_threads_is_another_name_of_cpu_count(monkeypatch):
    monkeypatch.setenv("THREADS", "3")
    assert settings.CPU_COUNT == 3
    with Context(THREADS=2):
        assert settings.CPU_COUNT == 2


def test_two_names_of_one_setting_that_differ_are_an_error_naming_both(monkeypatch):
    monkeypatch.setenv("CPU_COUNT", "2")
    monkeypatch.setenv("THREADS", "3")
    with pytest.raises(SettingError, match="CPU_COUNT=2 contradicts THREADS=3"):
        _ = settings.CPU_COUNT


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("DEBUG", "8", "an integer 0 to 7"),
        ("DEBUG", "-1", "an integer 0 to 7"),
        ("DEBUG", "verbose", "an integer 0 to 7"),
        ("CPU_COUNT", "-2", "an integer of 0 or more"),
        ("CACHE", "maybe", "0 or 1"),
        ("JIT", "3", "an integer 0 to 2"),
        ("DEFAULT_FLOAT", "int8", "one of half"),
    ],
)
def test_a_bad_value_is_an_error_naming_variable_value_and_what_is_allowed(
    monkeypatch, name, text, allowed
):
    monkeypatch.setenv(name, text)
    with pytest.raises(SettingError, match=f"^{name}={text} is not allowed: {name} is {allowed}"):
        getattr(settings, name)


@pytest.mark.parametrize(
    ("text", "value"), [("HALF", "float16"), ("Float32", "float32"), ("double", "float64")]
)
def test_default_float_takes_every_spelling_in_any_case(monkeypatch, text, value):
    monkeypatch.setenv("DEFAULT_FLOAT", text)
    assert settings.DEFAULT_FLOAT == value


def test_the_cache_folder_follows_the_users_and_may_be_set(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path(settings.CACHE_DIR) == tmp_path / "treadle"
    settings.reload()
    monkeypatch.setenv("CACHE_DIR", str(tmp_path / "mine"))
    assert Path(settings.CACHE_DIR) == tmp_path / "mine"


def test_without_a_home_there_is_no_cache_folder(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert settings.CACHE_DIR == ""


def test_an_unknown_prefixed_variable_warns_once_and_suggests_the_nearest(monkeypatch):
    monkeypatch.setenv("TREADLE_DEBGU", "1")
    with pytest.warns(UserWarning, match="TREADLE_DEBGU .* did you mean TREADLE_DEBUG"):
        _ = settings.DEBUG
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert settings.CPU_COUNT == 0


def test_context_scopes_values_and_nests():
    with Context(DEBUG=2, CPU_COUNT=4):
        with Context(DEBUG=5):
            assert (settings.DEBUG, settings.CPU_COUNT) == (5, 4)
        assert settings.DEBUG == 2
    assert settings.DEBUG == 0


def test_context_ends_its_scope_when_an_error_passes_through():
    with pytest.raises(ZeroDivisionError), Context(DEBUG=2):
        raise ZeroDivisionError
    assert settings.DEBUG == 0


def test_one_context_may_be_entered_again_while_it_is_open():
    scope = Context(DEBUG=2)
    with scope, Context(DEBUG=3), scope:
        assert settings.DEBUG == 2
    assert settings.DEBUG == 0


def test_context_decorates_functions_and_keeps_their_names():
    @Context(TRAINING=1)
    def train():
        return settings.TRAINING

    assert train() is True
    assert train.__name__ == "train"
    assert settings.TRAINING is False


def test_context_decorates_coroutines_over_their_whole_run():
    @Context(DEBUG=3)
    async def inside():
        await asyncio.sleep(0)
        return settings.DEBUG

    async def both():
        return await asyncio.gather(inside(), outside())

    async def outside():
        await asyncio.sleep(0)
        return settings.DEBUG

    assert asyncio.run(both()) == [3, 0]


def test_context_refuses_to_decorate_a_generator():
    with pytest.raises(SettingError, match="generator"):

        @Context(DEBUG=1)
        def numbers():
            yield 1


def test_context_of_one_thread_is_unseen_by_another():
    seen = []
    with Context(DEBUG=6):
        thread = threading.Thread(target=lambda: seen.append(settings.DEBUG))
        thread.start()
        thread.join()
    assert seen == [0]


def test_context_with_an_unknown_name_suggests_the_nearest():
    with pytest.raises(SettingError, match="no setting DEBG; did you mean DEBUG"):
        Context(DEBG=1)


def test_context_checks_its_values_when_it_is_made():
    with pytest.raises(SettingError, match="DEBUG=9 is not allowed"):
        Context(DEBUG=9)


def test_an_assigned_value_holds_in_every_thread_below_any_context():
    settings.TRAINING = True
    assert row("TRAINING").origin == "set by the program"
    with Context(TRAINING=0):
        assert settings.TRAINING is False
    assert settings.TRAINING is True


def test_describe_names_where_each_value_comes_from(monkeypatch):
    monkeypatch.setenv("DEBUG", "2")
    with Context(CPU_COUNT=3):
        assert (row("DEBUG").value, row("DEBUG").origin) == ("2", "DEBUG")
        assert (row("CPU_COUNT").value, row("CPU_COUNT").origin) == ("3", "Context")
        assert (row("JIT").value, row("JIT").origin) == ("1", "default")


def test_every_setting_is_documented():
    assert all(len(r.doc) > 20 and r.type and r.default for r in describe())


def test_the_settings_page_is_current():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_page(), "run: treadle env --markdown > docs/settings.md"
