"""An AMD GPU in software, written from LLVM's tables: so far, machine code to instructions."""
