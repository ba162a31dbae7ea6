"""PyTorch's files: what torch.save writes comes back, and no file runs code or reads too far."""

import collections
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import UserError
from treadle.io import torch_load
from treadle.io.pickled import Call, PickleError, load

try:
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch writes the files of this test")


def saved(path, value):
    torch.save(value, path)
    return path


@needs_torch
@pytest.mark.parametrize(
    "name",
    ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
     "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"],
)  # fmt: skip
def test_every_dtype_comes_back_as_it_was(tmp_path, name):
    value = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, name))
    back = torch_load(saved(tmp_path / "f", {"x": value}))["x"]
    assert (back.shape, back.dtype) == ((2, 3), getattr(torch, name))
    assert back.tolist() == value.tolist()


@needs_torch
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t,
        lambda t: t[2:5],
        lambda t: t.transpose(0, 2),
        lambda t: t[1:3].permute(1, 2, 0),
        lambda t: t[:, ::2, 1:],
        lambda t: t[3, 1, 2],
        lambda t: t[:0],
        lambda t: t[:, :1].expand(6, 5, 3),
        lambda t: t[0, 0, :1].expand(7),
        lambda t: t.flatten().unfold(0, 4, 4),
        lambda t: t.reshape(1, 6, 1, 12).transpose(0, 2),
    ],
)
def test_views_have_the_elements_that_they_had(tmp_path, view):
    value = view(torch.arange(72, dtype=torch.float32).reshape(6, 4, 3))
    back = torch_load(saved(tmp_path / "f", [value]))[0]
    assert back.shape == tuple(value.shape)
    np.testing.assert_array_equal(back.numpy(), value.numpy())


@needs_torch
def test_a_whole_tensor_is_the_files_own_memory_and_a_tied_one_is_one_tensor(tmp_path):
    weight = torch.arange(6.0).reshape(2, 3)
    back = torch_load(saved(tmp_path / "f", {"a": weight, "b": weight, "row": weight[1]}))
    assert back["a"].is_realized
    assert back["a"] is back["b"]
    assert back["row"].tolist() == [3.0, 4.0, 5.0]


@needs_torch
def test_a_state_dict_and_a_checkpoint_of_an_optimizer_come_back(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    opt = torch.optim.Adam(net.parameters())
    net(torch.ones(4, 3)).sum().backward()
    opt.step()
    value = {"model": net.state_dict(), "opt": opt.state_dict(), "epoch": 3, "name": "né",
             "size": torch.Size([2, 3]), "raw": b"\x00\xff", "set": {1, 2}, "dtype": torch.float16,
             "parameter": torch.nn.Parameter(torch.ones(2)), "big": 1 << 80, "none": None,
             "device": torch.device("cpu")}  # fmt: skip
    back = torch_load(saved(tmp_path / "f", value))
    assert list(back["model"]) == list(value["model"])
    for name, tensor in value["model"].items():
        np.testing.assert_array_equal(back["model"][name].numpy(), tensor.numpy())
    found = back["opt"]["state"][0]["exp_avg"]
    np.testing.assert_array_equal(found.numpy(), value["opt"]["state"][0]["exp_avg"].numpy())
    assert back["parameter"].tolist() == [1.0, 1.0]
    for name in ("epoch", "name", "size", "raw", "set", "big", "none", "device"):
        expected = value[name]
        assert back[name] == (str(expected) if name == "device" else expected)
    assert back["dtype"] is dtypes.float16


@needs_torch
def test_the_bytes_of_a_file_in_a_tensor_load_like_it(tmp_path):
    path = saved(tmp_path / "f", [torch.ones(3)])
    content = Tensor(np.frombuffer(path.read_bytes(), np.uint8))
    assert torch_load(content)[0].tolist() == [1.0, 1.0, 1.0]


@needs_torch
def test_the_old_format_is_refused_with_advice(tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "f", _use_new_zipfile_serialization=False)
    with pytest.raises(UserError, match=r"format from before PyTorch 1.6.*save it again"):
        torch_load(tmp_path / "f")


@needs_torch
def test_a_whole_model_is_refused_by_the_name_of_its_class(tmp_path):
    with pytest.raises(UserError, match=r"instruction NEWOBJ|asks for torch.nn.*state_dict"):
        torch_load(saved(tmp_path / "f", torch.nn.Linear(2, 2)))


# -- files that mean harm --------------------------------------------------------------------------


def archive(path, program, records=None, order=b"little", folder="archive/"):
    """A file of a pickle and records, as torch.save lays them out."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr(f"{folder}data.pkl", program)
        file.writestr(f"{folder}byteorder", order)
        for name, data in (records or {"data/0": bytes(16)}).items():
            file.writestr(f"{folder}{name}", data)
    return path


def named(module, name):
    return f"c{module}\n{name}\n".encode()


def number(value):
    size = value.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)


def numbers(values):
    return b"(" + b"".join(map(number, values)) + b"t"


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def storage(size=4, key="0", kind=("torch", "FloatStorage")):
    parts = text("storage") + named(*kind) + text(key) + text("cpu") + number(size)
    return b"(" + parts + b"tQ"


def view(offset=0, sizes=(4,), strides=(1,), store=None):
    """A pickle of one tensor; the defaults are sound."""
    arguments = (store or storage()) + number(offset) + numbers(sizes) + numbers(strides) + b"\x89N"
    return b"\x80\x02" + named("torch._utils", "_rebuild_tensor_v2") + b"(" + arguments + b"tR."


def test_the_hostile_files_of_these_tests_are_sound_but_for_one_thing(tmp_path):
    assert torch_load(archive(tmp_path / "f", view())).tolist() == [0.0] * 4


class Attack:
    def __reduce__(self):
        return os.system, ("touch owned",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_calls_a_function_of_the_system_calls_nothing(
    tmp_path, monkeypatch, protocol
):
    monkeypatch.chdir(tmp_path)
    path = archive(tmp_path / "f", pickle.dumps({"x": Attack()}, protocol))
    with pytest.raises(UserError, match=r"asks for (posix|nt).system|instruction"):
        torch_load(path)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "name",
    ["builtins.eval", "builtins.getattr", "__builtin__.exec", "subprocess.Popen", "torch.load",
     "runpy._run_code", "importlib.import_module", "torch._utils.os.system",
     "collections.OrderedDict.__init__", "torch.hub.load"],
)  # fmt: skip
def test_names_that_are_not_on_the_list_are_refused(tmp_path, name):
    module, _, attribute = name.rpartition(".")
    program = b"\x80\x02" + named(module, attribute) + text("1+1") + b"\x85R."
    with pytest.raises(UserError, match=f"asks for {name}"):
        torch_load(archive(tmp_path / "f", program))
    stacked = b"\x80\x04" + text(module) + text(attribute) + b"\x93."
    with pytest.raises(UserError, match=f"asks for {name}"):
        torch_load(archive(tmp_path / "f", stacked))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"\x82\x01.", "instruction EXT1"),
        (b"ios\nsystem\n.", "instruction INST"),
        (named("collections", "OrderedDict") + b")\x81.", "instruction NEWOBJ"),
        (b"(" + named("collections", "OrderedDict") + b"o.", "instruction OBJ"),
        (b"\x97.", "instruction NEXT_BUFFER"),
        (text("call me") + b")R.", "calls a str"),
        (named("torch", "float32") + b")R.", "calls a DType"),
        (named("collections", "OrderedDict") + b"]b.", "fills a Call, not a dict"),
        (named("collections", "OrderedDict") + b"NR.", "calls a Call"),
        (named("torch", "Size") + b"]\x94h\x00a\x85R.", "broken|torch.Size"),
        (b"]" + b"r" + b"\xff\xff\xff\xff" + b".", "None"),
        (b"", "broken"),
        (b"N", "broken"),
        (b".", "broken"),
        (b"0.", "broken"),
        (b"(.", "mark where a value should be"),
        (b"h\x07.", "broken"),
        (b"Na.", "broken"),
        (b"]N]]s.", "fills a"),
        (b"NNu.", "broken"),
        (b"}]Ns.", "key of type list"),
        (b"}(]]u.", "key of type list"),
        (b"\x8f(]\x90.", "key of type list"),
        (b"}" + b")" + b"\x85" * 200_000 + b"Ns.", "key of type tuple"),
        (b"X\xff\xff\xff\xffabc.", "broken"),
        (b"\x8e" + b"\xff" * 8 + b"abc.", "broken"),
        (b"\x8b\xff\xff\xff\x7f.", "broken"),
        (b"\x95" + b"\xff" * 8 + b"N.", "None"),
        (text("storage") + b"Q.", "no reference to a storage"),
        (b"\x80\x02\xff.", "broken"),
    ],
)
def test_a_pickle_that_asks_for_more_than_plain_values_is_refused(tmp_path, program, message):
    path = archive(tmp_path / "f", program)
    if message == "None":  # odd, but harmless: nothing was allocated for what it claims
        torch_load(path)
        return
    with pytest.raises(UserError, match=message):
        torch_load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": (5,)}, "reaches element 4 of a storage of 4"),
        ({"offset": 1}, "reaches element 4"),
        ({"sizes": (2, 2), "strides": (3, 1)}, "reaches element 4"),
        ({"sizes": (1 << 62, 2), "strides": (4, 1)}, "reaches element"),
        ({"sizes": (2,), "strides": (1 << 80,)}, "reaches element"),
        ({"offset": 1 << 70, "sizes": ()}, "do not fit"),
        ({"offset": 1 << 70, "sizes": (), "strides": ()}, "reaches element"),
        ({"offset": -1}, "not whole numbers"),
        ({"strides": (-1,)}, "not whole numbers"),
        ({"sizes": (-4,)}, "not whole numbers"),
        ({"sizes": (1,) * 65, "strides": (1,) * 65}, "not whole numbers"),
        ({"sizes": (4, 1)}, "do not fit"),
        ({"sizes": (3, 2, 2), "strides": (1, 1, 1), "offset": 0}, "reaches|repeats"),
        ({"sizes": (2, 3), "strides": (1, 1)}, "repeats the 4 elements"),
        ({"store": storage(5)}, "the storage 0 of 5 float32 cannot be a record of 16 bytes"),
        ({"store": storage(3)}, "cannot be a record of 16 bytes"),
        ({"store": storage(-1)}, "is no size"),
        ({"store": storage(1 << 80)}, "cannot be a record"),
        ({"store": storage(key="1")}, "it has no record archive/data/1"),
        ({"store": storage(key="../../../etc/passwd")}, "it has no record"),
        ({"store": storage(kind=("torch", "Size"))}, "no reference to a storage"),
        ({"store": b"N"}, "made of a NoneType, not a storage"),
    ],
)
def test_a_view_that_is_not_inside_of_its_storage_is_refused(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        torch_load(archive(tmp_path / "f", view(**change)))


def test_bools_that_are_neither_0_nor_1_are_refused(tmp_path):
    program = view(store=storage(kind=("torch", "BoolStorage")))
    path = archive(tmp_path / "f", program, {"data/0": b"\0\1\2\0"})
    with pytest.raises(UserError, match="neither 0 nor 1"):
        torch_load(path)


def test_the_other_byte_order_is_refused(tmp_path):
    with pytest.raises(UserError, match="byte order is b'big'"):
        torch_load(archive(tmp_path / "f", view(), order=b"big"))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"x" * 1000])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(UserError, match=r"\[torch_load\] .* cannot be read"):
        torch_load(tmp_path / "f")


def test_compressed_and_repeated_records_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "f", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", view())
    with pytest.raises(UserError, match="is compressed"):
        torch_load(tmp_path / "f")
    with zipfile.ZipFile(tmp_path / "g", "w") as file:
        file.writestr("archive/data.pkl", view())
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("archive/data.pkl", b"N.")
    with pytest.raises(UserError, match="comes twice"):
        torch_load(tmp_path / "g")


def test_records_that_share_bytes_are_refused(tmp_path):
    data = bytearray(archive(tmp_path / "f", view()).read_bytes())
    places = [i for i in range(len(data)) if data[i : i + 4] == b"PK\x01\x02"]
    # the second record begins where the first does
    data[places[1] + 42 : places[1] + 46] = bytes(4)
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(UserError, match=r"overlaps|lies outside|cannot be read"):
        torch_load(tmp_path / "f")


def test_files_that_are_cut_off_or_changed_are_refused_or_read_never_worse(tmp_path):
    whole = archive(tmp_path / "f", view()).read_bytes()
    generator = np.random.default_rng(0)
    refused = 0
    for trial in range(300):
        data = bytearray(whole)
        if trial % 3 == 0:
            data = data[: generator.integers(len(data))]
        else:
            for _ in range(1 + trial % 5):
                data[generator.integers(len(data))] = generator.integers(256)
        (tmp_path / "g").write_bytes(data)
        try:
            torch_load(tmp_path / "g")
        except UserError:
            refused += 1
    assert 300 // 3 < refused < 300  # what is cut off, and more


def test_the_machine_reads_what_python_pickles_of_plain_values():
    value = {"a": [1, -2, 1 << 70, 2.5, None, True, "é", b"\xff"], ("t", 1): {3, 4}, "d": {}}
    value["again"] = value["a"]
    for protocol in (4, 5):
        back = load(pickle.dumps(value, protocol), {})
        assert back == value
        assert back["again"] is back["a"]
    ordered = collections.OrderedDict(x=1)
    for protocol in (2, 3, 4):
        names = {"collections.OrderedDict": Call(dict)}
        assert load(pickle.dumps(ordered, protocol), names) == {"x": 1}
    with pytest.raises(PickleError, match="refers to something outside"):
        load(b"NQ.", {})
