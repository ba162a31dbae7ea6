"""Machine code of Adreno's shader processors, as an instruction set of the emulated GPU's core."""
