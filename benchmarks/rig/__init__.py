"""What the parts stand on besides the kit: rows by the million, a stub that knows when, programs, callers."""
