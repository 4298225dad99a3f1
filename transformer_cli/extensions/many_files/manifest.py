provides = {"translate options": {"many files": {"load": "options:ManyFilesOptions"}}}
