"""One file per step of the schema; the first four characters of its name are its revision."""
