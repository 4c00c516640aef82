"""Who is asking? A person at a terminal."""
