"""From a kernel AST with its loops chosen to linear programs that a renderer prints."""
