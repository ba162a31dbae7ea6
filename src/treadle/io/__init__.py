"""File formats that hold tensors. Files are mapped, checked, and never executed.

Each raises OSError for a file that cannot be opened, UserError for one that is not sound,
DTypeError for elements that treadle or the format does not have, and ArgumentError for what is no
path.
"""

from .gguf import gguf_load
from .mapped import TensorIO
from .npy import npy_load, npz_load
from .safetensors import safe_load, safe_load_metadata, safe_save
from .tar import tar_extract
from .torch_file import torch_load

__all__ = [
    "TensorIO",
    "gguf_load",
    "npy_load",
    "npz_load",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
    "tar_extract",
    "torch_load",
]
