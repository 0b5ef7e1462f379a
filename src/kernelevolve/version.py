"""The version of this package, for rooms that stand beneath the front door."""

__version__ = "0.1.0"
