"""The package as installed."""

import importlib.metadata

import ringonce


def test_version_is_the_installed_one() -> None:
    """The version in the code and the version of the distribution are the same."""
    assert importlib.metadata.version("ringonce") == ringonce.__version__
