"""Results are the same, bit by bit, for any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys

# Each line is a name and a list of results, in what the lines above it define.
CODE = """
import hashlib
import numpy as np
from treadle import Tensor, fft
random = np.random.default_rng(0)
def T(*shape): return Tensor(random.standard_normal(shape).astype("f"))
def I(below, *shape): return Tensor(random.integers(0, below, shape))
def with_gradients(f, *xs):
    y = f(*xs)
    return y, *(y * T(*y.shape)).sum().gradient(*xs)
def attention(causal):
    return lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=causal)
def show(name, results):
    print(name, *(hashlib.md5(t.numpy().tobytes()).hexdigest() for t in results))

x = T(300, 4000)
show("sums", [x.sum(), x.sum(0), x.sum(1), T(1000003).sum(), T(100001, 3).sum(0)])
show("products", [x @ x.T, T(1000, 999) @ T(999, 101), T(2, 5000) @ T(5000, 3), T(4000) @ x.T])
show("batches", [T(16, 64, 128) @ T(16, 128, 32)])
rows = T(4101, 1024)
show("norms", [x.softmax(), rows.softmax(), x.T.softmax(0), x.layernorm(), x.logsumexp(1)])
show("spreads", [x.var(1), x.std(0)])
show("loss", with_gradients(lambda x: x.cross_entropy(Tensor(np.arange(300))), x))
show("convolution", with_gradients(
    lambda x, w: x.conv2d(w, padding=1), T(2, 16, 30, 30), T(32, 16, 3, 3)))
show("groups", with_gradients(
    lambda x, w: x.conv2d(w, stride=2, groups=2), T(2, 16, 31, 31), T(32, 8, 3, 3)))
show("pools", [T(4, 8, 33, 33).avg_pool2d(3), T(4, 8, 33, 33).max_pool2d(3)])
for causal in (False, True):
    show("attention", with_gradients(attention(causal), *(T(1, 4, 300, 64) for _ in range(3))))
show("scans", [T(100001).cumsum(0), x.cumsum(1), x.cumsum(0), x.cumprod(1), x.cummax(1)[0]])
show("order", [*x.sort(1), *T(200003).sort(), *x.topk(7), x.argmax(0)])
show("scatter", [Tensor.zeros(50, 7).scatter_reduce(0, I(50, 20000, 7), T(20000, 7), "sum"),
                 Tensor.zeros(50).scatter_reduce(0, I(50, 200000), T(200000), "sum")])
places = I(50, 40000)
show("embedding", with_gradients(lambda w: w[places], T(50, 64)))
Tensor.manual_seed(3)
show("draws", [Tensor.rand(100001), Tensor.randn(300, 300), Tensor.randperm(1001)])
show("elements", [x.gelu(), T(1001, 333).T.contiguous(), T(3, 5, 7, 111).permute(3, 1, 0, 2).exp()])
show("transforms", [fft.fft(T(64, 1000)).real])
"""


def results(threads):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "DEV": "CPU", "EMULATE": "0", "CPU_COUNT": str(threads)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_results_do_not_depend_on_the_number_of_threads():
    alone = results(1)
    assert len(alone) == 18
    for threads in (2, 3, 8):
        assert results(threads) == alone, threads
