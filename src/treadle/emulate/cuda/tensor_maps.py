"""Tensor maps as cuTensorMapEncodeTiled makes them: the same refusals, bytes of our own."""

from __future__ import annotations

from treadle.emulate.ptx.machine import TENSOR_MAP, TENSOR_MAP_BYTES, TENSOR_MAP_SIGN
from treadle.runtime.cuda.driver import ELEMENTS, DriverError, TensorTiles

__all__ = ["encoded"]

_CALL = "cuTensorMapEncodeTiled"
_RANKS, _MOST_BOX = range(1, 6), 256
_SWIZZLES = (0, 32, 64, 128)


def encoded(tiles: TensorTiles, capability: tuple[int, int]) -> bytes:
    """The map. Raises DriverError as the driver does, with what it leaves unsaid."""
    if capability < (9, 0):
        message = "tensor maps need compute capability 9.0"
        raise DriverError("CUDA_ERROR_NOT_SUPPORTED", _CALL, message)
    wrong = _refused(tiles)
    if wrong:
        raise DriverError("CUDA_ERROR_INVALID_VALUE", _CALL, wrong)
    data = bytearray(TENSOR_MAP_BYTES)

    def put(name: str, value: int, nbytes: int) -> None:
        data[TENSOR_MAP[name] : TENSOR_MAP[name] + nbytes] = value.to_bytes(nbytes, "little")

    put("sign", TENSOR_MAP_SIGN, 4)
    put("rank", len(tiles.shape), 4)
    put("nbytes", ELEMENTS[tiles.element][1], 4)
    put("pieces", max(tiles.swizzle // 16 - 1, 0), 4)
    put("rounds", tiles.element == "tf32", 2)
    put("address", tiles.address, 8)
    missing = (1,) * (5 - len(tiles.shape))
    for d, (size, box) in enumerate(zip(tiles.shape + missing, tiles.box + missing, strict=True)):
        put(f"size{d}", size, 8)
        put(f"box{d}", box, 2)
    for d, stride in enumerate(tiles.strides):
        put(f"stride{d + 1}", stride, 8)
    return bytes(data)


def _refused(tiles: TensorTiles) -> str:
    """What the driver's documentation does not allow, or ''."""
    rank, row = len(tiles.shape), tiles.box[0] * ELEMENTS[tiles.element][1] if tiles.box else 0
    rules = (
        (rank in _RANKS, f"a tensor of {rank} dimensions; 1 to 5 are possible"),
        (len(tiles.box) == rank and len(tiles.strides) == rank - 1,
         f"{rank} dimensions with a box of {len(tiles.box)} and {len(tiles.strides)} strides"),
        (tiles.address % 16 == 0, f"address 0x{tiles.address:x} is no multiple of 16"),
        (all(0 < n <= 1 << 32 for n in tiles.shape), f"shape {tiles.shape}"),
        (all(0 <= n < 1 << 40 and n % 16 == 0 for n in tiles.strides),
         f"strides {tiles.strides} are not all multiples of 16 below 2**40"),
        (all(0 < n <= _MOST_BOX for n in tiles.box), f"box {tiles.box}; 1 to 256 are possible"),
        (row % 16 == 0, f"rows of a box have {row} bytes, which is no multiple of 16"),
        (tiles.swizzle in _SWIZZLES, f"a swizzle of {tiles.swizzle} bytes"),
        (not tiles.swizzle or row <= tiles.swizzle,
         f"rows of a box have {row} bytes and the swizzle {tiles.swizzle}"),
    )  # fmt: skip
    return next((message for holds, message in rules if not holds), "")
