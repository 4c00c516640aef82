"""The documentation's tool: a stub until the next commit."""
