"""HEVC video into tensors: streams, decoders and colour."""
