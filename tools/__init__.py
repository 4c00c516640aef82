"""Scripts that belong to the repository, not to the package."""
