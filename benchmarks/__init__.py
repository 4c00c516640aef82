"""Benchmarks that a stranger can repeat: ``make bench``."""
