needs = ("revision", "verbatim")
provides = {
    "command": {"check": {"load": "command:check"}},
    "train options": {"suspect": {"load": "options:SuspectOptions"}},
    "vocab options": {"suspect": {"load": "options:SuspectOptions"}},
    "evaluate options": {"seen": {"load": "options:SeenOptions"}},
    "text_check": {"audit": {"load": "text_audit:TextAudit"}},
    "tokenizer check": {"characters": {"load": "lost_characters:describe_lost_characters"}},
}
