"""A report as one self-contained HTML page."""

import base64
import hashlib
import json
from importlib.resources import files

from transformer_cli.extras import import_extra
from transformer_cli.report.build import Report
from transformer_cli.report.examples import SEED, SHOWN
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, SPECIALS
from transformer_cli.version import __version__

_TEMPLATES = files("transformer_cli.report") / "template"


def plotly_script() -> str:
    """Return plotly.js as one script.

    Raises:
        MissingExtraError: plotly is not installed, or Jinja, which ``render`` needs.
    """
    import_extra("jinja2", "report", "report")
    return str(import_extra("plotly.offline", "report", "report").get_plotlyjs())


def render(report: Report, plotly: str) -> str:
    """Render the page.

    Jinja escapes all input. Besides, the page's Content-Security-Policy allows its own two scripts
    only, by their SHA-256, and no requests.

    Args:
        report: what it says.
        plotly: what ``plotly_script`` gave.
    """
    from jinja2 import DictLoader, Environment, StrictUndefined

    names = ("page.html", "macros.html")
    environment = Environment(
        loader=DictLoader({name: _template(name) for name in names}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["yaml"] = _as_yaml
    script = _template("page.js")
    translator = report.subject.translator
    return environment.get_template("page.html").render(
        report=report,
        subject=report.subject,
        data=translator.config.data,
        decoding=translator.decoding,
        label_smoothing=translator.config.training.label_smoothing,
        charts={chart.name: chart for chart in report.charts},
        page_data={
            "charts": [chart.as_json() for chart in report.charts],
            "attention": report.attention,
            "subwords": not translator.tokenizers.tgt.is_word_level,
            "marks": {SPECIALS[BOS_ID]: "start", SPECIALS[EOS_ID]: "end"},
        },
        css=_template("page.css"),
        scripts=[plotly, script],
        sums=[_policy_sum(each) for each in (plotly, script)],
        version=__version__,
        seed=SEED,
        shown=SHOWN,
    )


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _policy_sum(script: str) -> str:
    """Return a script's SHA-256 as a Content-Security-Policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _as_yaml(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
