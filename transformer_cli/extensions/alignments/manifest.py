provides = {"translate options": {"alignments": {"load": "options:AlignmentOptions"}}}
