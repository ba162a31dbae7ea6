"""Every collective of every dtype beside NumPy, in each process: `treadle run -n 4 collectives.py`.

Numbers are small whole ones, so that any order of additions gives the same.
"""

from __future__ import annotations

import numpy as np

from treadle import Tensor, TinyJit, distributed, dtypes

world = distributed.init()
rank, size = world.rank, world.size
REDUCED = {
    "float32": np.float32, "float64": np.float64, "float16": np.float16, "int8": np.int8,
    "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16, "int32": np.int32,
    "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64, "complex64": np.complex64,
}  # fmt: skip
SHAPES = [(), (1,), (3, 5), (0, 4), (size * 2, 3), (4, 70_000)]
FOLDS = {
    "sum": np.add.reduce, "prod": np.multiply.reduce, "max": np.maximum.reduce,
    "min": np.minimum.reduce,
}  # fmt: skip


def numbers(process: int, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """What a process has: each process knows it of all."""
    rng = np.random.default_rng([process, *shape])
    found = np.asarray(rng.integers(0, 3, shape), dtype)
    return found + 1j * rng.integers(0, 3, shape) if dtype is np.complex64 else found


def everyone(shape: tuple[int, ...], dtype: type) -> list[np.ndarray]:
    return [numbers(process, shape, dtype) for process in range(size)]


def same(found: Tensor, expected: np.ndarray, what: object) -> None:
    assert found.shape == expected.shape, (what, found.shape, expected.shape)
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    np.testing.assert_array_equal(found.numpy().astype(wide), expected.astype(wide), str(what))


def check(name: str, dtype: type, shape: tuple[int, ...]) -> int:
    every = everyone(shape, dtype)
    x = Tensor(every[rank], dtype=name)
    assert x.dtype.name == name
    checks = 0
    for op, fold in FOLDS.items():
        if dtype is not np.complex64 or op in ("sum", "prod"):
            total = world.allreduce(x, op)
            assert total.dtype.name == name
            same(total, fold(np.stack(every)).astype(dtype), (name, shape, op))
            checks += 1
    if np.issubdtype(dtype, np.inexact):
        mean = np.add.reduce(np.stack(every).astype(np.complex128)) / size
        found = world.allreduce(x, "mean").numpy()
        np.testing.assert_allclose(found.astype(np.complex128), mean, rtol=1e-3)
    for root in range(size):
        same(world.broadcast(x, root), every[root], (name, shape, "broadcast", root))
    for axis in range(len(shape)):
        same(world.allgather(x, axis), np.concatenate(every, axis), (name, shape, "gather", axis))
        if shape[axis] % size == 0:
            cuts = [np.split(one, size, axis) for one in every]
            mine = [cut[rank] for cut in cuts]
            total = np.add.reduce(np.stack(mine)).astype(dtype)
            same(world.reduce_scatter(x, axis), total, (name, shape, "scatter", axis))
            for other in range(len(shape)):
                joined = np.concatenate(mine, other)
                same(world.all_to_all(x, axis, other), joined, (name, shape, axis, other))
                checks += 1
        checks += 2
    if rank == 0:
        world.send(x + 1, size - 1)
    if rank == size - 1:
        got = world.recv(shape, name, source=0)
        same(got, every[0] + np.ones((), dtype), (name, shape, "recv"))
    return checks + 1 + size


def check_others() -> int:
    """bools, and floats that NumPy has no type of."""
    flags = [numbers(process, (5,), np.int32) > 0 for process in range(size)]
    x = Tensor(flags[rank])
    same(world.allreduce(x, "max"), np.logical_or.reduce(flags), "any")
    same(world.allreduce(x, "min"), np.logical_and.reduce(flags), "all")
    total = world.allreduce(x)
    assert total.dtype is dtypes.int32
    same(total, np.sum(flags, 0), "count")
    same(world.allgather(x), np.concatenate(flags), "bools")
    every = everyone((3, 5), np.float32)
    for dtype in (dtypes.bfloat16, dtypes.fp8e4m3):
        halves = Tensor(every[rank]).cast(dtype)
        found = world.allreduce(halves)
        assert found.dtype is dtype
        same(found.float(), np.sum(every, 0), dtype)
        same(world.allgather(halves).float(), np.concatenate(every), dtype)
    return 8


def check_pieces() -> int:
    """Sums that are exchanged in pieces, the last of which is a smaller one."""
    checks = 0
    for name in ("float32", "int64", "complex64"):
        shape = (3 * (size << 20) // np.dtype(name).itemsize // 7 + 1, 7)
        every = everyone(shape, REDUCED[name])
        x, step = Tensor(every[rank]).realize(), TinyJit(lambda x: world.allreduce(x).realize())
        for op, fold in list(FOLDS.items())[: 1 if name == "complex64" else None]:
            same(world.allreduce(x, op), fold(every), (name, op, "pieces"))
            checks += 1
        for replay in range(4):
            same(step((x + replay).realize()), np.sum(every, 0) + replay * size, (name, replay))
    return checks


def check_groups() -> int:
    """Groups of a group, in the order of their keys."""
    half = world.split(rank % 2, key=-rank)
    members = [process for process in range(size) if process % 2 == rank % 2][::-1]
    assert (half.size, members[half.rank]) == (len(members), rank)
    found = half.allgather(Tensor([rank]))
    assert found.tolist() == members
    world.barrier()
    for text in ("é", ""):
        assert world.tell(text * rank) == [text * process for process in range(size)]
    return 4


checked = sum(check(name, dtype, shape) for name, dtype in REDUCED.items() for shape in SHAPES)
checked += check_others() + check_pieces() + check_groups()
print(f"{checked} right")
