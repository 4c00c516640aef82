"""What is it? Pure nouns: frozen dataclasses and enums, standard library only."""
