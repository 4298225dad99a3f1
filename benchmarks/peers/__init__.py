"""The other programs' side of each comparison; every module runs in its program's environment."""
