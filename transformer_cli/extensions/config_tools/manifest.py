"""The features that this extension adds, as plain data."""

api = 1
provides = {
    "config command": {"schema": {"load": "command:print_schema"}, "show": {"load": "command:show"}}
}
