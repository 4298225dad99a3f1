"""What this extension adds, as plain data."""

api = 1
provides = {
    "config command": {"schema": {"load": "command:print_schema"}},
    "origins": {"run_origins": {"load": "run_origins:trace_run"}},
    "run file": {"origins.json": {"begin": "run_origins:begin_record"}},
}
