"""From a tensor graph to kernels: what is fused with what, in which order, in which memory."""
