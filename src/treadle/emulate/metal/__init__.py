"""Metal without a Mac: the objects that runtime/metal sends messages to, played on this processor.

    messages = EmulatedMetal("apple7", devices=1, compile_ir=compile_ir)

Read objects.py for how messages are checked, then gpu.py for what runs.
"""

from treadle.emulate.metal.faults import Misuse
from treadle.emulate.metal.messages import EmulatedMetal

__all__ = ["EmulatedMetal", "Misuse"]
