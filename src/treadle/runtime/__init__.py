"""Devices: memory, loading and launching, one file a runtime, behind the protocols of `base`."""
