from typing import Any

needs = ("alignments", "constraints", "corpora", "report", "revision", "verbatim")
# Each format has a class, and filename extensions.
_FORMATS: dict[str, dict[str, Any]] = {
    "po": {"load": "po:PoDocument", "endings": (".po", ".pot")},
    "xliff": {"load": "xliff:XliffDocument", "endings": (".xlf", ".xliff")},
    "tmx": {"load": "tmx:TmxDocument", "endings": (".tmx",)},
    "html": {"load": "html:HtmlDocument", "endings": (".html", ".htm", ".xhtml", ".xht")},
    "markdown": {
        "load": "markdown:MarkdownDocument",
        "endings": (".md", ".markdown", ".mdown", ".mkd"),
    },
    "srt": {"load": "subtitles:SrtDocument", "endings": (".srt",)},
    "vtt": {"load": "subtitles:VttDocument", "endings": (".vtt",)},
    "lines": {"load": "document:LinesDocument", "endings": ()},
}
_ENDINGS = [facts["endings"] for facts in _FORMATS.values()]
SHOWN = ", ".join(endings[0] for endings in _ENDINGS if endings)
"""The first filename extension of each format, for help texts."""
provides: dict[str, dict[str, dict[str, Any]]] = {
    "translate options": {
        "documents": {
            "load": "options:DocumentOptions",
            "endings": [ending for endings in _ENDINGS for ending in endings],
            "reads": f"a document ({SHOWN})",
        }
    },
    "document": _FORMATS,
}
