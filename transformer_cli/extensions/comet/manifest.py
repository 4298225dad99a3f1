"""The features that this extension adds, as plain data."""

provides = {"evaluate options": {"comet": {"load": "options:CometOptions"}}}
