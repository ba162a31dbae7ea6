"""What tests of the engine share."""

import pytest

from treadle import GlobalCounters
from treadle.engine import kernels, pipeline
from treadle.engine.cache import CompileCache
from treadle.engine.programs import Programs


@pytest.fixture
def nothing_compiled(monkeypatch, tmp_path):
    cache = CompileCache(tmp_path)
    for module in (kernels, pipeline):
        monkeypatch.setattr(module, "compile_cache", lambda: cache)
    monkeypatch.setattr(kernels, "_kernels", {})
    monkeypatch.setattr(pipeline, "_programs", Programs())
    GlobalCounters.reset()
    return cache
