"""From a kernel to a better kernel with the same meaning: moves on its ranges, and how to pick."""
