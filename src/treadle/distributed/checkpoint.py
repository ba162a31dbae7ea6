"""Checkpoints that all processes of a group write, and that any number of processes reads.

    checkpoint.save(world, "runs/a", 100, {"w": w, "m": Slice(m, start=(0, 8), shape=(4, 16))})
    found = checkpoint.load(world, "runs/a")            the newest whole one, or None
    found.step, found.read("m", start=(0, 4), shape=(4, 4))

A checkpoint is a folder, step-0000000100, with a safetensors file of each process that has written
something, and `index.json`, which says where each slice is, and how each file has to be. It is
written aside, reaches the disk, and is renamed: so it is there as a whole or not at all, whenever a
process dies. All processes have to see the same file system.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import shutil
import sys
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeAlias, TypedDict, cast

from ..dtype import DType, to_dtype
from ..errors import DistributedError, UserError
from ..io.safetensors import NAMES, safe_load, safe_save
from ..tensor import Tensor
from .group import Group

if sys.platform != "win32":
    import fcntl

__all__ = ["Checkpoint", "Slice", "load", "save"]

Place: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # where a slice begins, and its shape

_FORMAT = 1
_INDEX, _LOCK = "index.json", ".lock"
_ASIDE, _REMOVED, _DAMAGED = ".writing-", ".removed-", "damaged-"
_NAME = re.compile(r"step-(\d{10,})")


@dataclass(frozen=True)
class Slice:
    """What this process has of a tensor of `shape`: `tensor`, which begins at `start` in it."""

    tensor: Tensor
    start: Sequence[int]
    shape: Sequence[int]


@dataclass(frozen=True)
class _Stored:
    """A tensor of a checkpoint: the file of each slice of it."""

    dtype: str
    shape: tuple[int, ...]
    files: dict[Place, str]


class _Index(TypedDict):
    """What `index.json` says: of each file its size and digest, of each tensor its slices."""

    format: int
    step: int
    metadata: dict[str, str]
    files: dict[str, tuple[int, str]]
    tensors: dict[str, dict[str, object]]


@dataclass(frozen=True)
class Checkpoint:
    """What was saved at `step`, with the strings that were kept beside it."""

    folder: Path
    step: int
    metadata: Mapping[str, str]
    _stored: Mapping[str, _Stored]
    _opened: dict[str, dict[str, Tensor]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def names(self) -> list[str]:
        """The names of its tensors."""
        return list(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        """The whole shape of a tensor. Raises UserError for a name that there is not."""
        return self._named(name).shape

    def dtype(self, name: str) -> DType:
        """The dtype of a tensor. Raises UserError for a name that there is not."""
        return to_dtype(self._named(name).dtype)

    def read(
        self, name: str, start: Sequence[int] | None = None, shape: Sequence[int] | None = None
    ) -> Tensor:
        """A tensor, or what begins at `start` in it and has `shape`, whoever has written it.

        Raises UserError for a name or a part that there is not.
        """
        import numpy as np

        stored = self._named(name)
        whole = ((0,) * len(stored.shape), stored.shape)
        wanted = tuple(start or whole[0]), tuple(whole[1] if shape is None else shape)
        if not _is_within(wanted, stored.shape):
            raise UserError(
                f"[checkpoint] {name!r} has shape {stored.shape}, with nothing of shape "
                f"{wanted[1]} at {wanted[0]}"
            )
        # In bytes: NumPy itself has not all of the dtypes.
        dtype = self.dtype(name)
        result = np.zeros((*wanted[1], dtype.itemsize), np.uint8)
        for place, file in stored.files.items():
            common = _common(place, wanted)
            if common is not None:
                found = self._open(file)[name][_cut(common, place[0])]
                array = np.ascontiguousarray(found.numpy())
                result[_cut(common, wanted[0])] = (
                    array.reshape(-1).view(np.uint8).reshape(*common[1], dtype.itemsize)
                )
        return Tensor(result.reshape(-1)).bitcast(dtype).reshape(wanted[1]).realize()

    def tensors(self) -> dict[str, Tensor]:
        """All of them, whole: what `nn.state.load_state_dict` takes."""
        return {name: self.read(name) for name in self._stored}

    def _named(self, name: str) -> _Stored:
        if name not in self._stored:
            raise UserError(f"[checkpoint] {self.folder} has no tensor {name!r}")
        return self._stored[name]

    def _open(self, file: str) -> dict[str, Tensor]:
        if file not in self._opened:
            self._opened[file] = safe_load(self.folder / file)
        return self._opened[file]


def save(
    group: Group,
    folder: str | os.PathLike[str],
    step: int,
    tensors: Mapping[str, Tensor | Slice],
    metadata: Mapping[str, str] | None = None,
    keep: int | None = None,
) -> None:
    """Write a checkpoint together; all processes call it, with the same names.

    A tensor is one that all have alike: one of them writes it. A Slice is what this process has of
    one; slices that several have are written once. When it returns the checkpoint is on the disk.
    `keep` is how many of the newest stay, the others are removed. Raises DistributedError on all
    processes where one of them cannot write, where slices do not make up the whole tensor, where
    there is a checkpoint of that step, or where another job is writing in the folder.
    """
    slices = {name: _whole(t) if isinstance(t, Tensor) else t for name, t in tensors.items()}
    told = _agreed(group, lambda: _described(slices, step, metadata, keep))
    stored = _agreed(group, lambda: _shared_out([json.loads(text) for text in told]))[0]
    plan = _as_stored(json.loads(stored))
    root = Path(folder)
    with _Writing(group, root, step) as writing:
        files = _agreed(group, lambda: _write(writing.aside, group, plan, slices))
        index: _Index = {
            "format": _FORMAT, "step": step, "metadata": dict(metadata or {}),
            "files": dict(json.loads(text) for text in files if text != "null"),
            "tensors": json.loads(stored),
        }  # fmt: skip
        _agreed(group, lambda: writing.finish(json.dumps(index)))
    if group.rank == 0 and keep is not None:
        _remove_older(root, keep)


def load(group: Group, folder: str | os.PathLike[str]) -> Checkpoint | None:
    """The newest checkpoint of a folder that is whole; None where there is none.

    All processes call it; their number may be another one than that which has written. Each file is
    read once to compare its digest. One that is damaged is not taken: a warning says why, and it is
    renamed, since the same step will be saved again. Raises DistributedError where all are damaged,
    or where a later version of treadle has written one.
    """
    root = Path(folder)
    listed = _agreed(group, lambda: _told_by_first(group, lambda: json.dumps(_steps(root))))[0]
    wrong: dict[str, str] = {}
    for name in json.loads(listed):
        index, reason = _index_of(group, root / name)
        if index is None:
            wrong[name] = reason
            continue
        if group.rank == 0:
            _set_aside(root, wrong)
        stored = _as_stored(index["tensors"])
        return Checkpoint(root / name, index["step"], index["metadata"], stored)
    if wrong:
        lines = [f"{root / name}: {reason}" for name, reason in wrong.items()]
        raise DistributedError("[checkpoint] no checkpoint is whole\n  " + "\n  ".join(lines))
    return None


def _index_of(group: Group, folder: Path) -> tuple[_Index | None, str]:
    """The index of a checkpoint that is whole, or why it is not, alike on all processes."""
    read = lambda: (folder / _INDEX).read_text(encoding="utf-8")
    text = group.tell(_attempted(lambda: _told_by_first(group, read)))[0]
    if text[:1] == "!":
        return None, text[1:]
    verified = group.tell(_attempted(lambda: _verified(folder, text[1:], group)))
    wrong = [f"process {rank}: {t[1:]}" for rank, t in enumerate(verified) if t[:1] == "!"]
    if wrong:
        return None, wrong[0]
    index: _Index = json.loads(text[1:])
    if index["format"] != _FORMAT:
        raise DistributedError(
            f"[checkpoint] {folder} has format {index['format']}, and this treadle reads {_FORMAT}"
        )
    return index, ""


def _set_aside(root: Path, wrong: Mapping[str, str]) -> None:
    for name, reason in wrong.items():
        with _nothing_wrong("one that is damaged"):
            os.rename(root / name, root / f"{_DAMAGED}{name}-{secrets.token_hex(2)}")
        warnings.warn(
            f"[checkpoint] {root / name} is damaged, and an older one is taken: {reason}",
            stacklevel=3,
        )


# -- what all say ---------------------------------------------------------------------------------


def _attempted(make: Callable[[], str]) -> str:
    """What it makes, behind "=", or why it cannot, behind "!"."""
    try:
        return "=" + make()
    except (OSError, UserError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"!{type(error).__name__}: {error}" if not str(error) else f"!{error}"


def _agreed(group: Group, make: Callable[[], str]) -> list[str]:
    """What each process makes. Raises DistributedError on all of them where one cannot."""
    told = group.tell(_attempted(make))
    wrong: dict[str, list[int]] = {}
    for rank, text in enumerate(told):
        if text[:1] == "!":
            wrong.setdefault(text[1:].removeprefix("[checkpoint] "), []).append(rank)
    if wrong:
        lines = [f"process {', '.join(map(str, n))}: {text}" for text, n in wrong.items()]
        raise DistributedError("[checkpoint] " + "\n  ".join(lines))
    return [text[1:] for text in told]


def _told_by_first(group: Group, make: Callable[[], str]) -> str:
    return make() if group.rank == 0 else ""


# -- who writes what ------------------------------------------------------------------------------


def _whole(tensor: Tensor) -> Slice:
    return Slice(tensor, (0,) * tensor.ndim, tensor.shape)


def _described(
    slices: Mapping[str, Slice], step: int, metadata: Mapping[str, str] | None, keep: int | None
) -> str:
    """What this process has, as text. Raises UserError for what cannot be saved."""
    if step < 0 or (keep is not None and keep < 1):
        raise UserError(f"[checkpoint] step={step} has to be 0 or more, keep={keep} 1 or more")
    if not all(isinstance(text, str) for pair in (metadata or {}).items() for text in pair):
        raise UserError(f"[checkpoint] metadata must be strings by name, not {metadata!r}")
    found: dict[str, object] = {}
    for name, one in slices.items():
        start, whole, shape = tuple(one.start), tuple(one.shape), one.tensor.shape
        if one.tensor.dtype not in NAMES.values():
            raise UserError(f"[checkpoint] {name!r} is {one.tensor.dtype.name}: cast it first")
        if not _is_within((start, shape), whole):
            raise UserError(f"[checkpoint] {name!r} of shape {shape} at {start} is none of {whole}")
        found[name] = [one.tensor.dtype.name, whole, start, shape]
    return json.dumps({"step": step, "tensors": found})


def _shared_out(told: Sequence[dict[str, object]]) -> str:
    """Each slice is written by the one of those who have it that has the least to write until then.

    All processes compute the same. Raises UserError where slices leave something out, or overlap.
    """
    owners: dict[str, tuple[str, tuple[int, ...], dict[Place, list[int]]]] = {}
    first = cast("dict[str, object]", told[0]["tensors"])
    for rank, one in enumerate(told):
        described = cast("dict[str, list[object]]", one["tensors"])
        if one["step"] != told[0]["step"] or described.keys() != first.keys():
            names = sorted({*described} ^ {*first})[:4]
            raise UserError(f"process {rank} saves step {one['step']}, process 0 step "
                            f"{told[0]['step']}; names of one of them alone: {names}")  # fmt: skip
        for name, (dtype, whole, start, shape) in described.items():
            whole, start, shape = (tuple(cast("list[int]", n)) for n in (whole, start, shape))
            known = owners.setdefault(name, (cast("str", dtype), whole, {}))
            if known[:2] != (dtype, whole):
                raise UserError(f"{name!r} is {dtype} {whole} in process {rank}, and "
                                f"{known[0]} {known[1]} in process 0")  # fmt: skip
            known[2].setdefault((start, shape), []).append(rank)
    load, plan = [0] * len(told), {}
    for name, (dtype, whole, places) in owners.items():
        _check_whole(name, whole, list(places))
        files = []
        for place, ranks in places.items():
            writer = min(ranks, key=lambda rank: (load[rank], rank))
            load[writer] += math.prod(place[1]) * to_dtype(dtype).itemsize
            files.append([*place, f"part-{writer:05d}-of-{len(told):05d}.safetensors"])
        plan[name] = {"dtype": dtype, "shape": whole, "slices": files}
    return json.dumps(plan)


def _check_whole(name: str, whole: tuple[int, ...], places: Sequence[Place]) -> None:
    """Raises UserError where the places do not make up the whole, each element once.

    Where they begin and end cuts the tensor into cells; each has to be in one of them.
    """
    import numpy as np

    if 0 in whole:
        return
    ends = [{0, size} for size in whole]
    for start, shape in places:
        for known, at, n in zip(ends, start, shape, strict=True):
            known |= {at, at + n}
    cuts = [sorted(axis) for axis in ends]
    count = np.zeros([len(cut) - 1 for cut in cuts], np.int64)
    for start, shape in places:
        cells = [
            slice(bisect_left(cut, at), bisect_left(cut, at + n))
            for cut, at, n in zip(cuts, start, shape, strict=True)
        ]
        count[tuple(cells)] += 1
    wrong = np.argwhere(count != 1)
    if len(wrong):
        at = tuple(cut[int(n)] for cut, n in zip(cuts, wrong[0], strict=True))
        how = "is in several slices" if count[tuple(wrong[0])] else "is in no slice"
        raise UserError(f"element {at} of {name!r}, of shape {whole}, {how}")


def _as_stored(plan: Mapping[str, dict[str, object]]) -> dict[str, _Stored]:
    found = {}
    for name, one in plan.items():
        slices = cast("list[tuple[list[int], list[int], str]]", one["slices"])
        files = {(tuple(start), tuple(shape)): file for start, shape, file in slices}
        shape = tuple(cast("list[int]", one["shape"]))
        found[name] = _Stored(cast("str", one["dtype"]), shape, files)
    return found


# -- boxes ----------------------------------------------------------------------------------------


def _is_within(place: Place, whole: Sequence[int]) -> bool:
    start, shape = place
    if not len(start) == len(shape) == len(whole):
        return False
    return all(
        0 <= at and 0 <= n and at + n <= size
        for at, n, size in zip(start, shape, whole, strict=True)
    )


def _common(one: Place, other: Place) -> Place | None:
    """What two places share, if they share anything."""
    begin = tuple(map(max, one[0], other[0]))
    ends = [[at + n for at, n in zip(*place, strict=True)] for place in (one, other)]
    shape = tuple(min(a, b) - at for a, b, at in zip(*ends, begin, strict=True))
    return (begin, shape) if all(n > 0 for n in shape) else None


def _cut(place: Place, origin: Sequence[int]) -> tuple[slice, ...]:
    """The place in an array that begins at `origin`."""
    return tuple(slice(at - o, at - o + n) for at, n, o in zip(*place, origin, strict=True))


# -- the disk -------------------------------------------------------------------------------------


class _Writing:
    """A folder beside the checkpoints that becomes one. Process 0 makes, renames and removes it."""

    def __init__(self, group: Group, root: Path, step: int) -> None:
        self._group, self._root = group, root
        self._final = root / f"step-{step:010d}"
        self.aside = root / f"{_ASIDE}{step}-{secrets.token_hex(4)}"
        self._lock = -1

    def __enter__(self) -> Self:
        try:
            told = _agreed(self._group, lambda: _told_by_first(self._group, self._begin))
        except BaseException:
            self._leave()
            raise
        self.aside = self._root / told[0]
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _begin(self) -> str:
        self._root.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self._root)
        if self._final.exists():
            raise UserError(f"there is {self._final}: remove it, or take another folder")
        for left in (*self._root.glob(f"{_ASIDE}*"), *self._root.glob(f"{_REMOVED}*")):
            shutil.rmtree(left, ignore_errors=True)  # of jobs that were killed
        self.aside.mkdir()
        return self.aside.name

    def finish(self, index: str) -> str:
        """Make it a checkpoint."""
        if self._group.rank == 0:
            with open(self.aside / _INDEX, "w", encoding="utf-8") as file:
                file.write(index)
                file.flush()
                os.fsync(file.fileno())
            _sync(self.aside)
            os.rename(self.aside, self._final)
            _sync(self._root)
        return ""

    def _leave(self) -> None:
        if self._group.rank != 0:
            return
        if self._lock >= 0:
            shutil.rmtree(self.aside, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _locked(root: Path) -> int:
    """A file that one process at a time has. Raises UserError where another one has it."""
    handle = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise UserError(f"another job is writing a checkpoint in {root}") from None
    return handle


def _write(
    aside: Path, group: Group, plan: Mapping[str, _Stored], slices: Mapping[str, Slice]
) -> str:
    """Write what is this process's part; returns the file's name, size and digest."""
    if not aside.is_dir():
        raise UserError(f"{aside}, which process 0 has made, is not there: a folder is needed that "
                        "all processes share")  # fmt: skip
    mark = f"part-{group.rank:05d}-of-"
    own = {}
    for name, stored in plan.items():
        one = slices[name]
        file = stored.files[tuple(one.start), one.tensor.shape]
        if file.startswith(mark):
            own[name] = one.tensor
    if not own:
        return "null"
    path = aside / f"{mark}{group.size:05d}.safetensors"
    safe_save(own, path)
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return json.dumps([path.name, [path.stat().st_size, _digest(path)]])


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _verified(folder: Path, text: str, group: Group) -> str:
    """Raises UserError where a file is not as the index says; digests are shared out."""
    index: _Index = json.loads(text)
    if index["format"] != _FORMAT:
        return ""  # all of them see that
    for number, (name, (size, digest)) in enumerate(sorted(index["files"].items())):
        found = (folder / name).stat().st_size
        if found != size:
            raise UserError(f"{name} has {found} bytes, not {size}")
        if number % group.size == group.rank and _digest(folder / name) != digest:
            raise UserError(f"{name} is not what was written")
    return ""


def _steps(root: Path) -> list[str]:
    """The names of the checkpoints of a folder, the newest first."""
    names = [path.name for path in root.iterdir()] if root.is_dir() else []
    return sorted(filter(_NAME.fullmatch, names), key=lambda name: -int(name[5:]))


def _remove_older(root: Path, keep: int) -> None:
    """Each is renamed first: half of one is never found. What cannot be removed stays."""
    for name in _steps(root)[keep:]:
        with _nothing_wrong("an old one"):
            os.rename(root / name, root / f"{_REMOVED}{name}")
            shutil.rmtree(root / f"{_REMOVED}{name}")


@contextmanager
def _nothing_wrong(what: str) -> Iterator[None]:
    """A file system's error is a warning."""
    try:
        yield
    except OSError as error:
        warnings.warn(f"[checkpoint] {what} stays: {error}", stacklevel=4)


def _sync(folder: Path) -> None:
    """What was made or renamed in a folder reaches the disk."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
