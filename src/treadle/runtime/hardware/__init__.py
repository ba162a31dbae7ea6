"""What runtimes that drive a GPU through its kernel driver, or past it, have in common.

`elf` reads object files, `messagepack` the notes in them, and `codeobject` links AMD's.
"""
