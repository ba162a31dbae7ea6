"""Kernels of one flat loop: one code for any number of elements, and the same numbers."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import numpy as np
import pytest

from treadle import Device, GlobalCounters, Tensor, dtypes, nn
from treadle.engine import kernels, pipeline
from treadle.engine.cache import CompileCache
from treadle.engine.flat_kernels import flat_form, resized
from treadle.engine.programs import Programs
from treadle.engine.run import scheduled
from treadle.engine.translation import Translator
from treadle.errors import DeviceError
from treadle.ir.text import render

SIZES = [64, 128, 192, 384, 1024, 8320, 9408, 1 << 16, (1 << 20) + 256, 5 << 22]
PROCESSORS = ["CPU:LLVM:x86-64-v2", "CPU:LLVM:x86-64-v3", "CPU:LLVM:x86-64-v4"]


def translator_of(device):
    try:
        return Translator.of(Device[device])
    except DeviceError as error:
        pytest.skip(f"{device}: {error}")


def kernel_of(value, device="CPU"):
    return scheduled([(value.node, device)])[-1]


def filled(*shape):
    return Tensor.ones(*shape).contiguous().realize()


def expression(rng, size, device):
    """Elementwise operations of several dtypes, of whole tensors and of single numbers."""
    kinds = [dtypes.float32, dtypes.float16, dtypes.int32, dtypes.uint8, dtypes.float64]
    tensor = lambda: Tensor.empty(size, dtype=rng.choice(kinds), device=device)
    x, number = tensor(), Tensor.empty(1, device=device)
    for _ in range(rng.randrange(1, 6)):
        other = rng.choice([tensor(), number, rng.choice([2, 3.5])])
        how = rng.randrange(6)
        if how == 0:
            x = x + other
        elif how == 1:
            x = x * other
        elif how == 2:
            x = (x > 1).where(x, other)
        elif how == 3:
            x = x.cast(dtypes.float32).exp()
        elif how == 4:
            x = x.maximum(other)
        else:
            x = x.cast(rng.choice(kinds))
    return x + Tensor.rand(size, device=device) if rng.randrange(3) == 0 else x + 1


@pytest.mark.parametrize("device", PROCESSORS)
@pytest.mark.parametrize("seed", range(8))
def test_kernels_of_the_same_form_are_rendered_alike(device, seed):
    translator = translator_of(device)
    found = {}
    for size in SIZES:
        value = expression(random.Random(seed), size, device)
        kernel = kernel_of(value, device)
        form = flat_form(kernel.ast, translator.target)
        if form is not None:
            found.setdefault(form.text, []).append((form, kernel))
    assert sum(map(len, found.values())) >= 5
    rendered = []
    compiler = type("Kept", (), {"compile": lambda self, source: rendered.append(source) or b""})()
    reading = replace(translator, compiler=compiler)
    for alike in found.values():
        (longest, kernel), *others = sorted(alike, key=lambda pair: -pair[0].size)
        job = lambda k: kernels._job("same", k, render(k.ast))
        made, _ = reading.translate(replace(job(kernel), name="same"))
        for form, other in others:
            description = resized(made, longest, form, "same", job(other).work)
            if description is None:
                continue
            right, _ = reading.translate(replace(job(other), name="same"))
            assert description["entries"] == right["entries"]
            assert description["work"] == right["work"]
            if form.size > 64:  # less than two steps need no loop
                assert rendered[-1] == rendered[0], (longest.size, form.size)
        rendered.clear()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("part of a block", lambda: Tensor.empty(100) + 1),
        ("none", lambda: Tensor.empty(0).cat(Tensor.empty(100)) + 1),
        ("a reduction", lambda: Tensor.empty(128, 8).sum(1)),
        ("another order", lambda: filled(1024).flip(0) + 1),
        ("a part", lambda: filled(2048)[:1024] + 1),
        ("two loops", lambda: filled(64, 128) + filled(128)),
        ("places", lambda: filled(1024)[filled(128).cast(dtypes.int32)] + 1),
    ],
)  # fmt: skip
def test_other_kernels_have_no_such_form(name, value):
    target = Device["CPU"].code_target
    assert flat_form(kernel_of(value()).ast, target) is None


def test_what_is_stored_past_the_caches_is_of_another_form():
    target = Device["CPU"].code_target
    size = target.l3 // 4 // 256 * 256
    form = lambda n: flat_form(kernel_of(Tensor.empty(n) * 2).ast, target).text
    assert form(size // 8) == form(size // 4)
    assert len({form(size // 8), form(size // 4 * 3), form(2 * size)}) == 3


def test_steps_that_do_not_fit_are_not_taken_from_another_kernel():
    target = Device["CPU"].code_target
    one, other = (flat_form(kernel_of(Tensor.empty(n) + 1).ast, target) for n in (1024, 2048))
    made = {"name": "a", "entries": [("a", 3, 1, [], [], 1, 0, [], [])], "scratch": []}
    assert resized(made, one, other, "b", None) is None
    made["entries"] = [("a", 1, 1, [], [], 1, 0, [], [])]  # no loop: it would take one step
    assert resized(made, one, other, "b", None) is None


@pytest.fixture
def empty_caches(monkeypatch, tmp_path):
    def empty():
        monkeypatch.setattr(pipeline, "_programs", Programs())
        kernels._kernels.clear()

    cache = CompileCache(tmp_path / "cache")
    for module in (kernels, pipeline):
        monkeypatch.setattr(module, "compile_cache", lambda: cache)
    empty()
    return empty


def trained():
    """Parameters of many sizes after two updates."""
    rng = np.random.default_rng(0)
    sizes = [(64,), (128, 3), (130, 64), (65,), (32, 320), (7, 9), (512, 640)]
    params = [Tensor(rng.random(s, np.float32), requires_grad=True) for s in sizes]
    optimiser = nn.optim.AdamW(params, lr=0.01)
    for _ in range(2):
        with Tensor.train():
            optimiser.zero_grad()
            sum((p * p * 0.5).sum() for p in params).backward()
            optimiser.step()
    return [p.numpy() for p in params]


def test_an_update_of_many_parameters_is_compiled_once_and_right(monkeypatch, empty_caches):
    GlobalCounters.reset()
    shared, count = trained(), GlobalCounters.compile_count
    empty_caches()
    GlobalCounters.reset()
    again = trained()
    assert GlobalCounters.compile_count == 0 < GlobalCounters.cache_hits
    monkeypatch.setattr(kernels, "flat_form", lambda *_: None)
    empty_caches()
    kernels.compile_cache().clear()
    GlobalCounters.reset()
    alone = trained()
    assert GlobalCounters.compile_count >= count + 3
    for a, b, c in zip(shared, again, alone, strict=True):
        assert np.array_equal(a, c)
        assert np.array_equal(b, c)


def test_names_are_those_of_each_kernel(empty_caches):
    x, y = Tensor.empty(1024) + 1, Tensor.empty(2048) + 1
    Tensor.realize(x, y)
    names = {re.sub(r"_\w{6}$", "", k.name) for k in kernels._kernels.values()}
    assert {"map_1024", "map_2048"} <= names
