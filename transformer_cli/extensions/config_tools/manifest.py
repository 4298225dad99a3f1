provides = {
    "config command": {"schema": {"load": "command:print_schema"}, "show": {"load": "command:show"}}
}
