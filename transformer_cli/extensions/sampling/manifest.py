"""The features that this extension adds, as plain data."""

provides = {"translate options": {"sampling": {"load": "options:SamplingOptions"}}}
