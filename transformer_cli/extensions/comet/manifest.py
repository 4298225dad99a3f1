provides = {"evaluate options": {"comet": {"load": "options:CometOptions"}}}
