"""The HTTP API (extra ``api``): accept, read, decide, operate. ``create_app`` makes it around a facade."""
