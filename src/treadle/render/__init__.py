"""From linear programs to the text that a compiler reads."""
