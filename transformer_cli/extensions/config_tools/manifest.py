"""What this extension adds, as plain data."""

api = 1
provides = {
    "command": {"config": {"load": "command:config"}},
    "run file": {"origins.json": {"begin": "origins:begin_record"}},
}
