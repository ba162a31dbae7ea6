"""Rule sets that hold for every target."""
