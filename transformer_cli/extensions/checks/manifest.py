"""What this extension adds, as plain data."""

api = 1
needs = ("revision",)
provides = {
    "command": {"check": {"load": "command:check"}},
    "evaluate options": {"near": {"load": "options:NearOptions", "acts_unasked": True}},
    "stored": {"lines": {"load": "digests:digest_pairs"}},
    "text_check": {"audit": {"load": "text_audit:TextAudit"}},
    "tokenizer check": {"characters": {"load": "lost_characters:describe_lost_characters"}},
}
