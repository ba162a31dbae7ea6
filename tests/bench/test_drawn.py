"""Rows of random shapes: the seed alone decides them, and libraries agree on their numbers."""

import subprocess

import numpy as np
import pytest

from treadle import bench
from treadle.bench import drawn
from treadle.bench.drawn import BYTES, FAMILIES, FLOPS, drawn_rows, seed_of_version
from treadle.bench.measure import measure
from treadle.bench.work import Input, Work

EACH = 3


def named(seed, each=EACH):
    return [(work.name, work.inputs) for work in drawn_rows(seed, each)]


def test_a_seed_draws_the_same_rows_again_and_another_one_others():
    assert named("a") == named("a")
    assert not set(named("a")) & set(named("b"))


def test_more_rows_of_a_seed_begin_with_the_fewer():
    few, more = dict(named("a")), dict(named("a", EACH + 2))
    assert few.items() <= more.items()


def test_every_family_has_its_rows_by_different_names():
    names = [name for name, _ in named("a", 12)]
    assert len(set(names)) == 12 * len(FAMILIES)


def test_rows_cost_neither_too_little_nor_too_much():
    for work in drawn_rows("a", 12):
        low, high = FLOPS if work.ceiling == "flops" else BYTES
        assert low <= work.amount <= high


def test_the_seed_is_the_commit_of_the_checkout(tmp_path, monkeypatch):
    def git(*words):
        command = ["git", "-C", tmp_path, "-c", "user.name=A", "-c", "user.email=a@example.org"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    file = tmp_path / "drawn.py"
    file.write_text("")
    monkeypatch.setattr(drawn, "__file__", str(file))
    git("init")
    untracked = seed_of_version()  # an installed package may lie in another project's folder
    git("add", "drawn.py")
    git("commit", "-m", "one")
    assert seed_of_version() == git("rev-parse", "--short=12", "HEAD") != untracked


def test_libraries_that_differ_have_no_time():
    class One:
        def __init__(self, value):
            self.value = value

        def prepare(self, work):
            return lambda: np.full(3, self.value)

        def arrays(self, result):
            return [result]

    work = Work("random", "ones", "read", 12.0, (Input((3,)),), lambda lib, x: x, (), compared=True)
    libraries = {"treadle": lambda: One(1.0), "torch": lambda: One(1.1)}
    found = measure(work, libraries, rounds=3, budget=0.01)
    assert list(found.times) == ["treadle"]
    assert "numbers up to 0.1 off what treadle gives" in found.failed["torch"]


def test_a_run_of_random_shapes_says_how_many_are_as_fast(capsys):
    pytest.importorskip("torch", reason="PyTorch is the peer of these rows")
    assert bench.run(["random: matmul"], quick=True, seed="a") == 0
    printed = capsys.readouterr().out
    assert "random shapes: of seed a" in printed
    assert "no random shape has a time" in printed or "at least as fast as torch" in printed
