"""AMD's machine code on the SIMT core: see docs/design/amd-emulation.md."""
