"""Every name of the standard is there, with the standard's signature."""

from __future__ import annotations

import inspect

import pytest

from treadle import Tensor, array_api, dtypes
from treadle.errors import UserError

# What the reference has beyond the standard of 2024.12, and what takes complex numbers.
BEYOND = {
    "Device", "ArrayAPIStrictFlags", "set_array_api_strict_flags", "get_array_api_strict_flags",
    "reset_array_api_strict_flags", "__version__", "broadcast_shapes", "isin", "eig", "eigvals",
}  # fmt: skip
# Where the reference has a default of its own for "not given".
UNSET = {("astype", "device"), ("from_dlpack", "device"), ("from_dlpack", "copy")}
ATTRIBUTES = ["dtype", "device", "mT", "ndim", "shape", "size", "T"]
METHODS = [
    "__abs__", "__add__", "__and__", "__array_namespace__", "__bool__", "__complex__",
    "__dlpack__", "__dlpack_device__", "__eq__", "__float__", "__floordiv__", "__ge__",
    "__getitem__", "__gt__", "__index__", "__int__", "__invert__", "__le__", "__lshift__",
    "__lt__", "__matmul__", "__mod__", "__mul__", "__ne__", "__neg__", "__or__", "__pos__",
    "__pow__", "__rshift__", "__setitem__", "__sub__", "__truediv__", "__xor__", "to_device",
    "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__ipow__", "__imatmul__",
    "__imod__", "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__", "__radd__",
    "__rsub__", "__rmul__", "__rtruediv__", "__rfloordiv__", "__rpow__", "__rmatmul__", "__rmod__",
    "__rand__", "__ror__", "__rxor__", "__rlshift__", "__rrshift__",
]  # fmt: skip


def functions(reference):
    names = [n for n in reference.__all__ if n not in BEYOND]
    return {n: getattr(reference, n) for n in names if inspect.isfunction(getattr(reference, n))}


def test_all_names_are_there_and_each_once(strict):
    assert len(array_api.__all__) == len(set(array_api.__all__))
    assert all(hasattr(array_api, name) for name in array_api.__all__)
    assert sorted(set(strict.__all__) - BEYOND - set(array_api.__all__)) == []
    for where in ("linalg", "fft"):
        ours, theirs = getattr(array_api, where).__all__, getattr(strict, where).__all__
        assert sorted(set(theirs) - BEYOND - set(ours)) == []


def parameters(function):
    return {
        p.name: p
        for p in inspect.signature(function).parameters.values()
        if (function.__name__, p.name) not in UNSET
    }


@pytest.mark.parametrize("where", ["", "linalg", "fft"])
def test_signatures_are_those_of_the_standard(strict, where):
    ours, theirs = (getattr(xp, where) if where else xp for xp in (array_api, strict))
    differing = []
    for name, reference in functions(theirs).items():
        mine, wanted = parameters(getattr(ours, name)), parameters(reference)
        for parameter in {*mine, *wanted}:
            got, want = mine.get(parameter), wanted.get(parameter)
            # a keyword that may stand without its name, or be left out, is no less than a keyword
            if (
                got is None
                or want is None
                or not (
                    got.kind in (want.kind, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                    and (got.default == want.default or name == "expand_dims")
                )
            ):
                differing.append((name, str(got), str(want)))
    assert differing == []


def test_functions_are_called_by_their_names_and_say_what_they_do():
    for namespace in (array_api, array_api.linalg, array_api.fft):
        for name in namespace.__all__:
            function = getattr(namespace, name)
            if inspect.isfunction(function):
                assert (function.__name__, bool(function.__doc__)) == (name, True)


def test_the_array_object_has_what_the_standard_asks_for():
    x = Tensor([[1.0, 2.0, 3.0]])
    assert [name for name in (*ATTRIBUTES, *METHODS) if not hasattr(x, name)] == []
    assert (x.size, x.ndim, x.shape, x.device) == (3, 2, (1, 3), "CPU")
    assert (x.size(), x.size(1), x.size(-2)) == ((1, 3), 3, 1)
    assert isinstance(x.size, int)
    assert x.mT.shape == x.T.shape == (3, 1)
    assert complex(Tensor(2.5)) == 2.5 + 0j
    assert x.to_device("REF").device == "REF"
    with pytest.raises(UserError, match="stream"):
        x.to_device("CPU", stream=1)


def test_a_tensor_names_its_namespace():
    x = Tensor([1.0])
    for version in (None, "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is array_api
    assert array_api.__array_api_version__ == "2024.12"
    with pytest.raises(UserError, match=r"2031\.12"):
        x.__array_namespace__(api_version="2031.12")


def test_the_namespace_tells_what_it_can_do():
    info = array_api.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True, "data-dependent shapes": True, "max dimensions": None,
    }  # fmt: skip
    assert info.default_device() == "CPU"
    assert info.default_dtypes() == {
        "real floating": dtypes.float32, "complex floating": dtypes.complex64,
        "integral": dtypes.int32, "indexing": dtypes.int32,
    }  # fmt: skip
    assert set(info.dtypes(kind="integral")) == {
        *info.dtypes(kind="signed integer"), *info.dtypes(kind="unsigned integer"),
    }  # fmt: skip
    assert info.dtypes(kind=("bool", "real floating")) == {
        "bool": dtypes.bool, "float32": dtypes.float32, "float64": dtypes.float64,
    }  # fmt: skip
    assert set(info.dtypes()) == {
        *info.dtypes(kind="numeric"), *info.dtypes(kind="bool"),
    }  # fmt: skip
    with pytest.raises(UserError, match="odd"):
        info.dtypes(kind="odd")
    with pytest.raises(UserError):
        info.dtypes(device="SOMEWHERE")


def test_the_devices_are_those_that_compute_here():
    devices = array_api.__array_namespace_info__().devices()
    assert devices[0] == "CPU"
    assert {"CPU", "REF"} <= set(devices)
    assert "NULL" not in devices
