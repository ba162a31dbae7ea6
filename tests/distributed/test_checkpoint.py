"""Checkpoints of several processes: what comes back, and what disks, jobs and deaths do to them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.distributed import checkpoint
from treadle.distributed.checkpoint import Slice
from treadle.errors import DistributedError, UserError
from treadle.io import safe_load

from .job import NEEDS_MPI, run
from .threads import together

WHOLE = np.arange(12 * 6, dtype=np.float32).reshape(12, 6)


def rows(group) -> dict[str, Tensor | Slice]:
    """Each has some of the rows of one tensor, and all have another one."""
    each = len(WHOLE) // group.size
    mine = Tensor(WHOLE[group.rank * each :][:each])
    return {"w": Slice(mine, (group.rank * each, 0), WHOLE.shape), "step": Tensor([7])}


def saved(folder, step=1, size=3, parts=rows, **options):
    return together(
        size, lambda group: checkpoint.save(group, folder, step, parts(group), **options)
    )


def loaded(folder, size=1):
    """What all processes find alike."""
    found = together(size, lambda group: checkpoint.load(group, folder))
    assert all(one == found[0] for one in found), found
    return found[0]


def refused(found) -> str:
    """The message that all processes raise alike."""
    assert all(isinstance(error, DistributedError) for error in found), found
    assert len({str(error) for error in found}) == 1, found
    return str(found[0])


# -- what comes back ------------------------------------------------------------------------------


@pytest.mark.parametrize("writers", [1, 2, 3, 4])
@pytest.mark.parametrize("readers", [1, 2, 3])
def test_any_number_of_processes_reads_what_another_number_has_written(tmp_path, writers, readers):
    assert saved(tmp_path, 20, writers, metadata={"epoch": "2"}) == [None] * writers

    def read(group):
        found = checkpoint.load(group, tmp_path)
        each = WHOLE.shape[1] // readers
        part = found.read("w", (0, group.rank * each), (len(WHOLE), each))  # columns
        return found.step, found.metadata, part.numpy(), found.tensors()

    for rank, (step, metadata, part, tensors) in enumerate(together(readers, read)):
        assert (step, metadata) == (20, {"epoch": "2"})
        np.testing.assert_array_equal(part, np.split(WHOLE, readers, 1)[rank])
        np.testing.assert_array_equal(tensors["w"].numpy(), WHOLE)
        assert tensors["step"].tolist() == [7]


@pytest.mark.parametrize(
    "dtype", [dtypes.bool, dtypes.int64, dtypes.float16, dtypes.bfloat16, dtypes.fp8e4m3,
              dtypes.float64, dtypes.uint8]
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (2, 3, 4)])
def test_every_dtype_and_shape_comes_back(tmp_path, dtype, shape):
    count = int(np.prod(shape))
    x = Tensor(np.arange(count, dtype=np.float32).reshape(shape)).cast(dtype)
    saved(tmp_path, parts=lambda group: {"x": x})
    found = loaded(tmp_path).read("x")
    assert (found.dtype, found.shape) == (dtype, shape)
    np.testing.assert_array_equal(found.float().numpy(), x.float().numpy())


def test_blocks_that_are_cut_in_two_axes_come_back(tmp_path):
    def blocks(group):
        start = (group.rank // 2 * 5, group.rank % 2 * 4)
        stop = (12 if start[0] else 5, 6 if start[1] else 4)
        mine = WHOLE[start[0] : stop[0], start[1] : stop[1]]
        return {"w": Slice(Tensor(mine), start, WHOLE.shape)}

    assert saved(tmp_path, size=4, parts=blocks) == [None] * 4
    found = loaded(tmp_path)
    np.testing.assert_array_equal(found.read("w", (3, 2), (5, 3)).numpy(), WHOLE[3:8, 2:5])
    with pytest.raises(UserError, match="nothing of shape"):
        found.read("w", (10, 0), (3, 6))
    with pytest.raises(UserError, match="has no tensor 'v'"):
        found.read("v")


def test_what_several_have_is_written_once_and_the_work_is_shared(tmp_path):
    same = {name: Tensor(np.full(100, n, np.float32)) for n, name in enumerate("abcd")}
    saved(tmp_path, size=2, parts=lambda group: same)
    parts = sorted((tmp_path / "step-0000000001").glob("*.safetensors"))
    names = [sorted(safe_load(part)) for part in parts]
    assert [len(found) for found in names] == [2, 2]
    assert sorted(name for found in names for name in found) == list("abcd")
    assert loaded(tmp_path).tensors()["d"].tolist() == [3.0] * 100


def test_the_newest_is_taken_and_older_ones_are_removed(tmp_path):
    assert loaded(tmp_path / "none") is None
    for step in (1, 2, 30, 4):
        saved(tmp_path, step, keep=2)
    assert sorted(p.name for p in tmp_path.glob("[!.]*")) == ["step-0000000004", "step-0000000030"]
    assert loaded(tmp_path, 2).step == 30


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (lambda g: {"w": Slice(Tensor(WHOLE[:4]), (4 * min(g.rank, 1), 0), (12, 6))},
         "element (8, 0) of 'w', of shape (12, 6), is in no slice"),
        (lambda g: {"w": Slice(Tensor(WHOLE[:5]), (g.rank * 3, 0), (11, 6))},
         "element (3, 0) of 'w', of shape (11, 6), is in several slices"),
        (lambda g: {"w": Slice(Tensor(WHOLE), (1, 0), (12, 6))}, "at (1, 0) is none of (12, 6)"),
        (lambda g: {"w": Tensor(WHOLE[: 4 + g.rank])}, "'w' is float32 (5, 6) in process 1"),
        (lambda g: {"w" * (g.rank + 1): Tensor(WHOLE)}, "names of one of them alone: ['w', 'ww']"),
        (lambda g: {"c": Tensor([1j])}, "'c' is complex64: cast it first"),
    ],
)  # fmt: skip
def test_slices_that_are_no_whole_are_named_on_all_processes(tmp_path, parts, words):
    assert words in refused(saved(tmp_path, parts=parts))
    assert not list(tmp_path.glob("step-*"))


def test_numbers_and_metadata_are_checked(tmp_path):
    assert "step=-1 has to be 0 or more" in refused(saved(tmp_path, -1))
    assert "keep=0 1 or more" in refused(saved(tmp_path, keep=0))
    assert "metadata must be strings" in refused(saved(tmp_path, metadata={"a": 1}))


def test_processes_at_different_steps_are_named(tmp_path):
    found = together(2, lambda g: checkpoint.save(g, tmp_path, 5 + g.rank, rows(g)))
    assert "process 1 saves step 6, process 0 step 5" in refused(found)


# -- what a disk does -----------------------------------------------------------------------------


def _full_on(rank, monkeypatch):
    """The disk of one process is full."""
    write = checkpoint._write

    def failing(aside, group, plan, slices):
        if group.rank == rank:
            (aside / "part-of-one").write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(aside, group, plan, slices)

    monkeypatch.setattr(checkpoint, "_write", failing)


def test_a_full_disk_of_one_process_is_told_on_all_and_nothing_stays(tmp_path, monkeypatch):
    saved(tmp_path, 1)
    _full_on(2, monkeypatch)
    assert "process 2: [Errno 28] No space left" in refused(saved(tmp_path, 2))
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir() if p.name != ".lock"] == ["step-0000000001"]
    assert loaded(tmp_path).step == 1
    assert saved(tmp_path, 2) == [None] * 3


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of file sizes")
def test_a_disk_that_is_really_full_is_told(tmp_path):
    code = (
        "import resource, sys; from treadle import Tensor, distributed\n"
        "from treadle.distributed import checkpoint\n"
        "world, x = distributed.init(), Tensor.ones(50_000).contiguous().realize()\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "checkpoint.save(world, sys.argv[1], 1, {'x': x})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "DistributedError: [checkpoint] process 0: [Errno 27] File too large" in ended.stderr
    assert [p.name for p in tmp_path.iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    assert "process 0: " in refused(saved(tmp_path / "file" / "runs"))


def test_a_folder_that_is_not_shared_is_told(tmp_path):
    def save(group):
        folder = tmp_path / str(group.rank // 2)  # as on two machines
        checkpoint.save(group, folder, 1, rows(group))

    assert "a folder is needed that all processes share" in refused(together(3, save))


def _cut_short(path):
    path.write_bytes(path.read_bytes()[:-1])


def _flipped(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("file", "harm", "words"),
    [
        ("part-00001-of-00003.safetensors", _cut_short, "bytes, not"),
        ("part-00002-of-00003.safetensors", _flipped, "is not what was written"),
        ("part-00000-of-00003.safetensors", os.unlink, "No such file"),
        ("index.json", _cut_short, "process "),
        ("index.json", os.unlink, "No such file"),
    ],
)
@pytest.mark.parametrize("readers", [1, 2])
def test_one_that_is_damaged_is_not_taken(tmp_path, file, harm, words, readers):
    saved(tmp_path, 1)
    saved(tmp_path, 2)
    harm(tmp_path / "step-0000000002" / file)
    with pytest.warns(UserWarning, match="step-0000000002 is damaged") as warned:
        assert loaded(tmp_path, readers).step == 1
    assert any(words in str(one.message) for one in warned)
    assert saved(tmp_path, 2) == [None] * 3  # the job comes there again
    assert loaded(tmp_path, readers).step == 2
    harm(tmp_path / "step-0000000002" / file)
    shutil.rmtree(tmp_path / "step-0000000001")
    found = together(readers, lambda group: checkpoint.load(group, tmp_path))
    assert "no checkpoint is whole" in refused(found)
    assert words in str(found[0])


def test_one_of_a_later_format_is_named_and_stays(tmp_path):
    saved(tmp_path, 1)
    saved(tmp_path, 2)
    index = tmp_path / "step-0000000002" / "index.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), "format": 2}))
    found = together(2, lambda group: checkpoint.load(group, tmp_path))
    assert "step-0000000002 has format 2, and this treadle reads 1" in refused(found)
    assert index.exists()


# -- what other jobs and deaths do ----------------------------------------------------------------


def test_a_second_job_in_the_folder_is_told(tmp_path):
    import fcntl

    with open(tmp_path / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = refused(saved(tmp_path))
    assert "another job is writing a checkpoint in" in text
    assert saved(tmp_path) == [None] * 3


def test_a_step_that_is_there_is_not_overwritten(tmp_path):
    saved(tmp_path, 3)
    assert "step-0000000003: remove it, or take another folder" in refused(saved(tmp_path, 3))
    assert loaded(tmp_path).step == 3


def test_what_a_killed_job_has_left_is_removed_by_the_next(tmp_path):
    (tmp_path / ".writing-9-abcd").mkdir(parents=True)
    (tmp_path / ".writing-9-abcd" / "part").write_text("half")
    (tmp_path / ".removed-step-0000000001").mkdir()
    assert loaded(tmp_path) is None
    saved(tmp_path, 10)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "step-0000000010"]


@pytest.mark.parametrize("rank", [0, 1])
def test_who_dies_while_it_writes_leaves_the_one_before(tmp_path, monkeypatch, rank):
    saved(tmp_path, 1)
    write = checkpoint._write

    def dying(aside, group, plan, slices):
        if group.rank == rank:
            raise SystemExit("killed")  # as a thread dies
        return write(aside, group, plan, slices)

    monkeypatch.setattr(checkpoint, "_write", dying)
    found = saved(tmp_path, 2)
    assert isinstance(found[rank], SystemExit)
    assert all(isinstance(e, DistributedError) for n, e in enumerate(found) if n != rank)
    monkeypatch.undo()
    assert loaded(tmp_path).step == 1
    assert saved(tmp_path, 2) == [None] * 3


@NEEDS_MPI
def test_a_killed_job_goes_on_from_its_last_checkpoint_with_another_number_of_processes(tmp_path):
    killed = run(3, "saving.py", str(tmp_path), "4", "killed")
    assert killed.status != 0
    assert "SIGKILL" in killed.text, killed.text
    assert loaded(tmp_path).step == 4
    again = run(2, "saving.py", str(tmp_path), "6", "")
    assert again.status == 0, again.text
    for process in (0, 1):
        assert again.lines_of(process) == ["begins at 4", "6 right"], again.text
