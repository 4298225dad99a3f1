"""What this extension adds, as plain data."""

api = 1
provides = {
    "command": {
        "report": {
            "load": "command:report",
            "help": "Report on a trained model as one HTML page: curves, scores, translations, "
            "attention.",
        },
        "attention": {
            "load": "command_attention:attention",
            "help": "Draw a model's attention while it translates a sentence, and print the "
            "translation.",
        },
    }
}
