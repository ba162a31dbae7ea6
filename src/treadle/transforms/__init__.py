"""Functions from graphs to graphs: differentiation and friends."""
