"""ringonce: a notification reaches the person once, or you can see exactly why it did not."""

__version__ = "0.1.0"
