"""What should happen? Pure verbs: no I/O, no clock, no randomness."""
