"""torchvision is imported beside any build of PyTorch."""

from treadle.bench.torch_compile.torchvision_operators import declare

declare()
