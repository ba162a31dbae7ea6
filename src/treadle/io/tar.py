"""Tar archives: the bytes of every file in one, by name. Nothing is written anywhere.

tar_extract("data.tar")["train/images.bin"]      -> uint8 tensor
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

from ..dtype import dtypes
from ..errors import UserError
from ..explained import explained
from ..tensor import Tensor
from .mapped import Source, label_of, mapped, reader_of, tensor_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["tar_extract"]


@explained
def tar_extract(t: Source) -> dict[str, Tensor]:
    """The regular files of an archive (a path or a uint8 tensor) as uint8 vectors, by name.

    Of files with one name the last counts, as in tar itself; links and folders are left out. The
    archive is mapped, so it must not be compressed. Raises UserError for a broken archive.
    """
    data, label = mapped(t), label_of(t)
    try:
        with tarfile.open(fileobj=reader_of(data), mode="r:") as archive:
            members = [member for member in archive if member.isreg()]
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise UserError(f"[tar_extract] {label} is no sound tar archive: {error}") from None
    return {member.name: _content(data, member, label) for member in members}


def _content(data: np.ndarray, member: tarfile.TarInfo, label: str) -> Tensor:
    begin, end = member.offset_data, member.offset_data + member.size
    if member.issparse():
        raise UserError(f"[tar_extract] {member.name!r} in {label} is sparse, which is not read")
    if not 0 <= begin <= end <= len(data):
        raise UserError(
            f"[tar_extract] {member.name!r} cannot be bytes {begin} to {end} of the {len(data)} "
            f"of {label}"
        )
    return tensor_of(data[begin:end], dtypes.uint8, (member.size,))
