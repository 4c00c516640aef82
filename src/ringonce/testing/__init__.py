"""The public test kit."""

from ringonce.testing.answers import Case
from ringonce.testing.providers import check_provider

__all__ = ["Case", "check_provider"]
