"""The rules of writing, each as a small program that the reference and treadle both follow."""

from __future__ import annotations

import numpy as np
import pytest

from .running import difference, expected

RULES = {
    "what is recorded reads the version that was current then": (
        """
x = Tensor([1, 2]).realize()
y = x * 10
x.assign(Tensor([5, 6]))
show(y)
show(x)
""",
        [[10, 20], [5, 6]],
    ),
    "a view writes to the storage of its owner, lazy or not": (
        """
x = Tensor([1, 2, 3]) * 2
y = (Tensor([1, 2, 3]) * 3).realize()
x[1:].assign(Tensor([50, 60]))
y[1:].assign(Tensor([50, 60]))
show(x)
show(y)
""",
        [[2, 50, 60], [3, 50, 60]],
    ),
    "whatever movement made the view": (
        """
x = Tensor([[1, 2, 3], [4, 5, 6]])
x.T[0].assign(Tensor([10, 40]))
x.flip(1)[1, ::2].assign(Tensor([60, 41]))
x.reshape(-1).detach()[1:3][::-1].assign(Tensor([30, 20]))
x.permute(1, 0).reshape(6)[3:4].assign(50)
show(x)
""",
        [[[10, 20, 30], [41, 50, 60]]],
    ),
    "however much it shows": (
        """
x = Tensor([1, 2]).realize()
x[...].assign(Tensor([3, 4]))
show(x)
x.reshape(1, 2)[0].assign(Tensor([5, 6]))
show(x)
y = Tensor([1]).realize()
y[0].assign(50)
show(y)
""",
        [[3, 4], [5, 6], [50]],
    ),
    "setting a part of a view writes through it": (
        """
x = Tensor([[1, 2], [3, 4]])
v = x[1]
v[0] = 30
show(x)
show(v)
""",
        [[[1, 2], [30, 4]], [30, 4]],
    ),
    "other tensors keep the values of their version, views included": (
        """
x = Tensor([1, 2, 3]).realize()
v, w = x.reshape(1, 3), x[1:]
x[0].assign(50)
show(v)
w.assign(Tensor([7, 8]))
show(v)
show(w)
show(x)
""",
        [[[1, 2, 3]], [[1, 2, 3]], [7, 8], [50, 7, 8]],
    ),
    "a view older than a write writes to the version that is there": (
        """
x = Tensor([1, 2, 3]).realize()
v = x[1:]
x += 10
v += 100
show(x)
show(v)
w = x[:2]
x *= 2
w[0] = 0
show(x)
show(w)
""",
        [[11, 102, 103], [102, 103], [0, 204, 206], [0, 204]],
    ),
    "what a view was taken of sees what is written through it": (
        """
x = Tensor.arange(6).reshape(2, 3)
x[0].assign(7)
x[1][1] = 8
show(x)
v = x.T
w, u = x.T, v[0]
u += 1
show(x)
show(v)
show(w)
show(u)
""",
        [
            [[7, 7, 7], [3, 8, 5]], [[8, 7, 7], [4, 8, 5]], [[8, 4], [7, 8], [7, 5]],
            [[7, 3], [7, 8], [7, 5]], [8, 4],
        ],
    ),
    "a view outlives its owner": (
        """
x = Tensor([1, 2, 3]) * 1
v, w = x[1:], x[:2]
del x
v += 1
show(v)
show(w)
w[1] = 0
show(w)
show(v)
""",
        [[3, 4], [1, 2], [1, 0], [3, 4]],
    ),
    "an expanded view and one through padding are refused": (
        """
x = Tensor([1, 2]).realize()
e = x.expand(2, 2)
with refused("expand"):
    e.assign(0)
with refused("expand"):
    e[0] = 0
with refused("expand"):
    e += 1
p = x.pad(((1, 0),))
with refused("pad"):
    p.assign(0)
with refused("pad"):
    p[1] = 0
with refused("pad"):
    p += 1
show(x)
show(e)
show(p)
""",
        [[1, 2], [[1, 2], [1, 2]], [0, 1, 2]],
    ),
    "in-place operators write to the storage, or through the view": (
        """
x = Tensor([1, 2, 3])
x += 1
v = x[1:]
v *= 10
x[0] -= 2
show(x)
show(v)
""",
        [[0, 30, 40], [30, 40]],
    ),
    "constants get a storage at their first write": (
        """
x, y = Tensor.full((2,), 3), Tensor.full((2,), 3)
v = x.reshape(1, 2)
v[0, 0] = 9
show(x)
show(y)
show(v)
x += 1
show(x)
""",
        [[9, 3], [3, 3], [[9, 3]], [10, 4]],
    ),
    "movements and results that change nothing are other objects": (
        """
x = Tensor([[1, 2]]).realize()
a, b, c = x.reshape(1, 2), x.pad(((0, 0), (0, 0))), x.permute(0, 1)
d, e, f = x.roll(0, 1), x.sum(()), x.max(())
g, h = x.flip(()), x.shrink(((0, 1), (0, 2)))
x += 1
for y in (a, b, c, d, e, f, g, h):
    y += 10
show(d)
show(e)
show(f)
show(x)
""",
        [[[11, 12]], [[11, 12]], [[11, 12]], [[11, 12]]],
    ),
    "assignment broadcasts and widens": (
        """
x = Tensor([[1.0, 2.0], [3.0, 4.0]])
x.assign(Tensor([5, 6]))
show(x)
x[0].assign(7)
x[1].assign(Tensor([8]))
show(x)
with refused("float32"):
    Tensor([1, 2]).assign(Tensor([1.0, 2.0]))
with refused("shape"):
    x.assign(Tensor([1, 2, 3]))
""",
        [[[5, 6], [5, 6]], [[7, 7], [8, 8]]],
    ),
    "state that is returned unrealized is written once a call": (
        """
s = Tensor([0])
@TinyJit
def f(x):
    return s.assign(s + x)
for n in range(5):
    r = f(Tensor([1]))
    show(s)
show(r)
""",
        [[1], [2], [3], [4], [5], [5]],
    ),
    "constants that a captured function reads are what they are at each call": (
        """
c = Tensor.zeros(2)
@TinyJit
def f(x):
    return x + c
for n in range(3):
    show(f(Tensor([1.0, 2.0])))
c += 1
show(f(Tensor([1.0, 2.0])))
c[0] = 5.0
show(f(Tensor([1.0, 2.0])))
c = Tensor.full((2,), 9.0)
show(f(Tensor([1.0, 2.0])))
show(f(Tensor([1.0, 2.0])))
""",
        [[1, 2], [1, 2], [1, 2], [2, 3], [6, 3], [10, 11], [10, 11]],
    ),
    "pending writes are done before a call": (
        """
s = Tensor([0])
@TinyJit
def f(x):
    s.assign(s * 2)
    return s + x
for n in range(5):
    s += 1
    r = f(Tensor([10]))
    show(r)
show(s)
""",
        [[12], [16], [24], [40], [72], [62]],
    ),
    "an argument is written by each call": (
        """
t = Tensor([0, 0, 0, 0])
u = Tensor([[1, 2], [3, 4]]).realize()
@TinyJit
def f(a, b):
    a[1:3] = b
for n in range(4):
    f(t, Tensor([n, n + 1]))
    show(t)
f(u.reshape(4), Tensor([8, 9]))
show(u)
f(u.T.reshape(4), Tensor([8, 9]))
show(u)
""",
        [[0, 0, 1, 0], [0, 1, 2, 0], [0, 2, 3, 0], [0, 3, 4, 0], [[1, 8], [9, 4]],
         [[1, 9], [8, 4]]],
    ),
    "an argument that is returned is itself": (
        """
x = Tensor([1, 2])
@TinyJit
def f(a, b):
    a += b
    return a
for n in range(4):
    r = f(x, Tensor([1, 1]))
    show(r)
x += 1
show(r)
""",
        [[2, 3], [3, 4], [4, 5], [5, 6], [6, 7]],
    ),
    "a view that is outside is written through": (
        """
c = Tensor([1, 2, 3, 4])
v = c[1:3]
@TinyJit
def f(x):
    global v
    v += x
    c[3:] = x[:1]
for n in range(4):
    f(Tensor([n, n]))
    show(c)
show(v)
""",
        [[1, 2, 3, 0], [1, 3, 4, 1], [1, 5, 6, 2], [1, 8, 9, 3], [8, 9]],
    ),
    "results are new memory at each call": (
        """
@TinyJit
def f(x):
    y = x * 2
    y[1] = 0
    z = Tensor([1, 1])
    z += x
    return y, z
a, b = f(Tensor([1, 1]))
c, d = f(Tensor([2, 2]))
e, g = f(Tensor([3, 3]))
h, i = f(Tensor([4, 4]))
e += 100
for t in (a, b, c, d, e, g, h, i):
    show(t)
""",
        [[2, 0], [2, 2], [4, 0], [3, 3], [106, 100], [4, 4], [8, 0], [5, 5]],
    ),
    "the same tensor twice, or two views of it": (
        """
x = Tensor([1, 2, 3, 4])
def add(a, b):
    a += b
    return a + b
f, g = TinyJit(add), TinyJit(add)
for n in range(3):
    show(call(f, x[:2], x[2:]))
    show(call(g, x, x))
    show(x)
show(f(Tensor([1, 2]), Tensor([3, 4])))
show(g(Tensor([1, 2, 3, 4]), Tensor([5, 6, 7, 8])))
""",
        None,
    ),
    "memory of others is written, and read-only memory is not": (
        """
n = np.arange(4, dtype=np.float32)
x = Tensor.from_blob(n.ctypes.data, (4,), "float32", owner=n)
x[1:3] = 7
x.realize()
show(n)
x.reshape(2, 2)[1].assign(Tensor([8, 9])).realize()
show(n)
y = Tensor.from_blob(n.ctypes.data, (4,), "float32", owner=n, readonly=True)
with refused("read-only"):
    y += 1
with refused("read-only"):
    y[0].assign(1)
show(y)
""",
        [[0, 7, 7, 3], [0, 7, 8, 9], [0, 7, 8, 9]],
    ),
    "leaves are written without gradients, and saved values keep their version": (
        """
w = Tensor([1.0, 2.0]).requires_grad_()
s = Tensor([3.0, 4.0]).realize()
y = (w * s * w).sum()
s += 10
show(y.gradient(w)[0])
with refused("leaf"):
    w += 1
with refused("leaf"):
    w[0] = 1
v = w[:1]
with refused("leaf"):
    v += 1
with Tensor.no_grad():
    w += 1
    w[1:].assign(7)
show(w)
z = w * 2
z[0] = 5
show(z.sum().gradient(w)[0])
z[:1].assign(w[1:])
show(z)
show(z.sum().gradient(w)[0])
""",
        [[6, 16], [2, 7], [0, 2], [7, 14], [0, 3]],
    ),
    "an array that was copied is one's own": (
        """
n = np.arange(3, dtype=np.float32)
x = Tensor(n)
n += 1
show(x)
x += 10
x.realize()
show(n)
""",
        [[0, 1, 2], [1, 2, 3]],
    ),
}  # fmt: skip

SHARDED = {
    "pieces are written through views": (
        """
x = Tensor([[1, 2], [3, 4], [5, 6], [7, 8]]).shard(D, 0)
y = x * 1
x[1:3] = 0
x.T[0].assign(9)
x[0] += 1
v = x[3]
v *= 2
for t in (x, y, v):
    show(t)
""",
        [
            [[10, 3], [9, 0], [9, 0], [18, 16]], [[1, 2], [3, 4], [5, 6], [7, 8]], [18, 16],
        ],
    ),
    "copies are written everywhere": (
        """
x = Tensor([1, 2, 3]).shard(D)
x[1:] = Tensor([7, 8]).shard(D)
x.flip(0)[0].assign(5)
show(x)
show(x + Tensor([1, 1, 1]).shard(D, 0))
""",
        [[1, 7, 5], [2, 8, 6]],
    ),
    "captured state over two devices goes on": (
        """
s = Tensor([[0, 0], [0, 0]]).shard(D, 0)
@TinyJit
def f(x):
    s[1] = s[0] + x[0]
    s.assign(s + x)
    return s * 2
for n in range(5):
    r = f(Tensor([[1, 1], [n, n]]).shard(D, 0))
    show(r)
show(s)
""",
        None,
    ),
}  # fmt: skip


def check(text: str, shown: list[object] | None) -> None:
    text = text.strip()
    wanted = expected(text)
    if shown is not None:
        assert [value.tolist() for value in wanted] == shown
    assert all(isinstance(value, np.ndarray) for value in wanted)
    for jit in (False, True):
        assert difference(text, wanted, jit) is None


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_holds(rule: str):
    check(*RULES[rule])


@pytest.mark.parametrize("rule", SHARDED)
def test_a_rule_holds_over_two_devices(rule: str):
    check(*SHARDED[rule])
