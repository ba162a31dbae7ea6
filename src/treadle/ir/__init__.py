"""The intermediate representation: one immutable, interned `Node` for everything."""
