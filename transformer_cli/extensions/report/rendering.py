"""Renders templates as self-contained HTML pages, which run only their own scripts."""

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

from transformer_cli.base.errors import OF_LINES, make_visible
from transformer_cli.base.packages import __version__, import_extra

_TEMPLATES = files("transformer_cli.extensions.report") / "template"
_MAX_LENGTH = 500  # characters shown of each side of a rejected pair


def plotly_script() -> str:
    """Return the script plotly.js; raise MissingExtraError if plotly or Jinja is not installed."""
    import_extra("jinja2", "report", "report")
    return str(import_extra("plotly.offline", "report", "report").get_plotlyjs())


def render_page(name: str, plotly: str | None, page_data: dict[str, Any], **values: object) -> str:
    """Render the template NAME.html with ``values``; the script NAME.js reads ``page_data``.

    ``plotly`` is the result of ``plotly_script``; if it is None, the page has no scripts. Jinja
    escapes all input, and control characters are made visible. The page's Content-Security-Policy
    allows only its own two scripts, identified by SHA-256, and no requests.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_make_all_visible,
    )
    environment.filters.update(sentence=_sentence, raw=_show_all)
    scripts = []
    if plotly is not None:
        scripts = [plotly, _template("common.js") + _template(f"{name}.js")]
    return environment.get_template(f"{name}.html").render(
        page_data=_make_all_visible(page_data),
        css=_template("page.css"),
        scripts=scripts,
        sums=[
            f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}" for script in scripts
        ],
        version=__version__,
        **values,
    )


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _make_all_visible(value: Any) -> Any:
    """Return a value for a page, with the control characters in all its strings escaped."""
    match value:
        case dict():
            return {_make_all_visible(key): _make_all_visible(item) for key, item in value.items()}
        case list() | tuple():
            return [_make_all_visible(item) for item in value]
        case str() if not hasattr(value, "__html__"):
            return make_visible(value)
        case _:
            return value


def _sentence(text: str) -> Any:
    """Return a sentence as HTML for its own table cell, where bidi controls may stay unescaped."""
    from markupsafe import escape

    return escape(re.sub(f"[^{OF_LINES}]+", lambda part: make_visible(part[0]), text))


def _show_all(line: str) -> str:
    """Return a line with all invisible characters escaped; cut it off if it is long."""
    shown = line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]} …"
    return "".join(
        character if character.isprintable() or character.isspace() else ascii(character)[1:-1]
        for character in shown
    )
