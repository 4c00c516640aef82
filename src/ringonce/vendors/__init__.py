"""Stand-ins for vendors: small servers on loopback that speak the real protocols and fail as they are told.

They keep a ledger of what they really received, which is what a promise can be checked against. Used by the
tests, ``make demo``, ``ringonce chaos``; and by you, against your own configuration.
"""
