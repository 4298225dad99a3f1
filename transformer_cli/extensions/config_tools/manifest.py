"""The features that this extension adds, as plain data."""

provides = {
    "config command": {"schema": {"load": "command:print_schema"}, "show": {"load": "command:show"}}
}
