"""An AMD GPU in software, from LLVM's tables: machine code, decoded and run on the SIMT core."""
