"""Apple's GPUs through Metal: messages.py talks to it, device.py runs kernels on it.

    device = MetalDevice("METAL", open_messages())
    buffer = device.allocator.alloc(1024)

pyobjc is imported when the first device is opened, never before.
"""

from treadle.runtime.metal.device import MetalDevice, describe
from treadle.runtime.metal.messages import Messages, open_messages

__all__ = ["Messages", "MetalDevice", "describe", "open_messages"]
