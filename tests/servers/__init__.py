"""Servers that the tests start themselves."""
