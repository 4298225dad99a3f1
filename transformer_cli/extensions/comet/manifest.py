"""What this extension adds, as plain data."""

api = 1
provides = {
    "evaluate options": {"comet": {"load": "options:CometOptions"}},
    "evaluation_note": {"comet": {"load": "scoring_model:open_comet"}},
}
