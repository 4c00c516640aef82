"""What happens when processes, databases and clocks fail."""
