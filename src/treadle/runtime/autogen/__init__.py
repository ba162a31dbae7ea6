"""Raw bindings of drivers, under the specification's module names."""
