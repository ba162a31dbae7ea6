"""An emulated computer around emulated devices: files, memory, a clock and a scheduler.

`platform.EmulatedPlatform` is what a runtime of the hardware gets in place of the operating system.
"""
