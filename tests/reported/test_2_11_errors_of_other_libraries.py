"""Absurd files, servers that break off and bombs of zeros: errors that are treadle's own."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import socketserver
import struct
import threading
import zipfile

import numpy as np
import pytest

from treadle import Context, Device, Tensor, dtypes
from treadle.errors import DeviceError, UserError
from treadle.io import gguf_load, npy_load, npz_load, safe_load, torch_load

ABSURD = [(2**70, 0), (0, 2**63), (2**40, 0, 2**40), (2**62, 2**62), (0,) * 65, (1,) * 100]


def bytes_of(data):
    return Tensor(np.frombuffer(data, np.uint8).copy())


def npy(shape):
    text = repr({"descr": "<f4", "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    count = 1 if shape and set(shape) == {1} else 0
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(4 * count)


def safetensors(shape):
    count = 1 if set(shape) == {1} else 0
    entry = {"dtype": "F32", "shape": list(shape), "data_offsets": [0, 4 * count]}
    header = json.dumps({"x": entry}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4 * count)


def gguf(shape, kind):
    header = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", 1) + b"x"
    header += struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape[::-1])
    header += struct.pack("<IQ", kind, 0)
    return header + bytes(-len(header) % 32) + bytes(64)


def torch_pickle(sizes, strides, count):
    """The pickle that torch.save writes of one float32 tensor, by hand."""

    def glob(name):
        module, _, attribute = name.rpartition(".")
        return f"c{module}\n{attribute}\n".encode()

    def number(value):
        return pickle.dumps(value, 2)[2:-1]

    def numbers(values):
        return b"(" + b"".join(map(number, values)) + b"t"

    storage = b"(" + number("storage") + glob("torch.FloatStorage") + number("0") + number("cpu")
    storage += number(count) + b"tQ"
    ordered = glob("collections.OrderedDict") + b"(tR"
    whole = glob("torch._utils._rebuild_tensor_v2") + b"(" + storage + number(0) + numbers(sizes)
    return b"\x80\x02" + whole + numbers(strides) + b"\x89" + ordered + b"tR."


def torch_file(sizes, strides, count):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("net/data.pkl", torch_pickle(sizes, strides, count))
        archive.writestr("net/data/0", np.arange(count, dtype=np.float32).tobytes())
    return file.getvalue()


def zipped(name, data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, data)
    return file.getvalue()


LOADED = {
    "npy": lambda shape: npy_load(bytes_of(npy(shape))),
    "npz": lambda shape: npz_load(bytes_of(zipped("x.npy", npy(shape))))["x"],
    "safetensors": lambda shape: safe_load(bytes_of(safetensors(shape)))["x"],
    "torch": lambda shape: torch_load(bytes_of(torch_file(shape, (1,) * len(shape), 1))),
}


@pytest.mark.parametrize("shape", ABSURD)
@pytest.mark.parametrize("form", LOADED)
def test_2_11_absurd_shapes_in_files_are_refused(form, shape):
    with pytest.raises(UserError):
        LOADED[form](shape).numpy()


@pytest.mark.parametrize("kind", [0, 2])
@pytest.mark.parametrize("shape", [(2**63, 0), (0, 2**63), (2**40, 0, 2**40), (2**62, 32)])
def test_2_11_absurd_shapes_in_gguf_are_refused(kind, shape):
    with pytest.raises(UserError):
        gguf_load(bytes_of(gguf(shape, kind)))[1]["x"].numpy()


def test_2_11_strides_of_single_elements_mean_nothing():
    data = torch_file((2, 1, 2), (3, 2**70, 1), 6)
    assert torch_load(bytes_of(data)).tolist() == [[[0.0, 1.0]], [[3.0, 4.0]]]


# -- from_url -------------------------------------------------------------------------------------

BODY = gzip.compress(b"hello" * 1000)
ANSWERS = {
    "breaks off": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc",
    "broken chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\nabc",
    "no status": b"no such thing\r\n\r\n",
    "no answer": b"",
    "a long line": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    "not found": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "no gzip": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd",
    "damaged gzip": b"HTTP/1.1 200 OK\r\n\r\n" + BODY[:12] + bytes(20) + BODY[32:],
    "cut gzip": b"HTTP/1.1 200 OK\r\n\r\n" + BODY[:-9],
}


@pytest.fixture
def server():
    """What answers every request at its address with `server.answer`, on this machine alone."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            while self.rfile.readline().strip():
                pass
            self.wfile.write(self.server.answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def url_of(server):
    return f"http://127.0.0.1:{server.server_address[1]}/x"


@pytest.mark.parametrize("answer", ANSWERS)
def test_2_11_servers_that_fail_are_errors_of_ours(server, answer):
    server.answer = ANSWERS[answer]
    with pytest.raises(UserError, match=r"\[from_url\] http://127.* cannot be read: \S"):
        Tensor.from_url(url_of(server), gunzip="gzip" in answer)


def test_2_11_what_is_sound_is_read_and_unpacked(server):
    server.answer = b"HTTP/1.1 200 OK\r\n\r\n" + BODY
    assert Tensor.from_url(url_of(server)).shape == (len(BODY),)
    assert bytes(Tensor.from_url(url_of(server), gunzip=True).numpy()) == b"hello" * 1000


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "http://a b/", "http://host:port/", "http://\x00/", "http://" + "x." * 200],
)
def test_2_11_what_is_no_url_is_an_error_of_ours(url):
    with pytest.raises(UserError, match=r"\[from_url\]"):
        Tensor.from_url(url)


# -- what unpacks to more than it says ------------------------------------------------------------


def test_2_11_a_packed_file_unpacks_to_a_limit(tmp_path):
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(bytes(3 << 20)))
    with Context(UNPACK_LIMIT=2), pytest.raises(UserError, match=r"more than 2 MiB.*UNPACK_LIMIT"):
        Tensor.from_url(path.as_uri(), gunzip=True)
    with Context(UNPACK_LIMIT=3):
        assert Tensor.from_url(path.as_uri(), gunzip=True).shape == (3 << 20,)


def test_2_11_compressed_arrays_unpack_to_a_limit(tmp_path):
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, x=np.zeros(1 << 18, np.float32), y=np.zeros(1 << 18, np.float32))
    with Context(UNPACK_LIMIT=2), pytest.raises(UserError, match=r"more than 2 MiB.*UNPACK_LIMIT"):
        npz_load(path)
    with Context(UNPACK_LIMIT=3):
        found = npz_load(path)
    assert found["y"].shape == (1 << 18,)
    assert found["x"].dtype is dtypes.float32
    np.savez(path, x=np.zeros(1 << 19, np.float32), y=np.zeros(1 << 18, np.float32))
    with Context(UNPACK_LIMIT=1):  # what is not compressed takes what the file takes
        assert len(npz_load(path)) == 2


@pytest.fixture
def made_by_pyopencl():
    """Makes a buffer of 64 bytes with these flags, as a tensor."""
    cl = pytest.importorskip("pyopencl")
    try:
        context = Device["CL"].runtime.context
    except DeviceError as error:
        pytest.skip(str(error))

    def make(flags):
        buffer = cl.Buffer(context, getattr(cl.mem_flags, flags), 64)
        return Tensor.from_blob(buffer, (16,), "float32", device="CL", owner=buffer)

    return make


@pytest.mark.parametrize("flags", ["HOST_NO_ACCESS", "HOST_READ_ONLY", "WRITE_ONLY"])
def test_2_11_opencl_memory_that_cannot_be_read_or_written(made_by_pyopencl, flags):
    with pytest.raises(DeviceError, match=f"made with mem_flags.{flags}"):
        made_by_pyopencl(flags)


def test_2_11_opencl_memory_for_reading_alone(made_by_pyopencl):
    x = made_by_pyopencl("READ_ONLY")
    assert x.shape == (16,)
    with pytest.raises(DeviceError, match="read-only"):
        x.assign(Tensor.ones(16, device="CL"))
