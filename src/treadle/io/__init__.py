"""File formats that hold tensors."""

from .safetensors import safe_load, safe_load_metadata, safe_save

__all__ = ["safe_load", "safe_load_metadata", "safe_save"]
