"""What should happen? Pure verbs: no clock, no randomness, no I/O; ``now`` and ``jitter`` are arguments."""
