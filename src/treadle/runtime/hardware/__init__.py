"""What runtimes that drive a GPU through its kernel driver, or past it, have in common.

`platform` is all that they ask of the operating system, `structs` says how bytes are laid out,
`timeline` orders work by signals in memory, `ring` hands commands to an engine, and `stream` holds
commands that are encoded once and changed in a few places.

`elf` reads object files, `messagepack` the notes in them, and `codeobject` links AMD's.
"""
