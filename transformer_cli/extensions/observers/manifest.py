"""What this extension adds, as plain data."""

api = 1
provides: dict[str, dict[str, dict[str, str]]] = {}
