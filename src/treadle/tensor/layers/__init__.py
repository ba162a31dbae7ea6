"""What neural networks are made of: convolution, pooling, attention, activations, dropout."""

from __future__ import annotations

from .activations import Activations
from .conv import Convolution
from .dropout import Dropout
from .functional import Functional
from .further import FurtherLayers
from .patches import Patches
from .resampling import Resampling

__all__ = ["Layers"]


class Layers(Activations, Convolution, Dropout, Functional, FurtherLayers, Patches, Resampling):
    """What neural networks are made of: convolution, pooling, attention, activations, dropout."""

    __slots__ = ()
