"""How does X spell it? One file per vendor, without I/O; each imports ``ringonce.provider`` only."""
