"""The features that this extension adds, as plain data."""

provides = {"translate options": {"n_best": {"load": "options:ScoreOptions"}}}
