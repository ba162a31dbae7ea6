"""What neural networks are made of: convolution, pooling, attention, activations, dropout."""

from __future__ import annotations

from .activations import Activations
from .conv import Convolution
from .dropout import Dropout
from .linear import Linear
from .normalisation import Normalisation
from .patches import Patches
from .resampling import Resampling

__all__ = ["Layers"]


class Layers(Activations, Convolution, Dropout, Linear, Normalisation, Patches, Resampling):
    """What neural networks are made of: convolution, pooling, attention, activations, dropout."""

    __slots__ = ()
