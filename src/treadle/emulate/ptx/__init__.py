"""PTX text becomes native code for the processor: read, translate, run."""
