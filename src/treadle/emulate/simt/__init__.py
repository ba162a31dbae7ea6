"""The core of an emulated GPU: runs warps of threads on the processor, with checks."""
