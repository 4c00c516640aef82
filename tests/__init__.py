"""The tests; a package, so that an installed `tests` of somebody else cannot shadow it."""
