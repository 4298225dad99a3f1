"""The version, in a module of its own: what reads it is not to import the package's interface."""

__version__ = "0.1.0"
