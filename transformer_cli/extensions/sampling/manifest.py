provides = {"translate options": {"sampling": {"load": "options:SamplingOptions"}}}
