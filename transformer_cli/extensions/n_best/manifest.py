provides = {"translate options": {"n_best": {"load": "options:ScoreOptions"}}}
