"""A report as one self-contained HTML page."""

from transformer_cli.report.build import Report
from transformer_cli.report.rendering import render_page
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, SPECIALS


def render(report: Report, plotly: str) -> str:
    """Render the page.

    Args:
        report: what it says.
        plotly: what ``plotly_script`` gave.
    """
    translator = report.subject.translator
    return render_page(
        "page",
        plotly,
        {
            "charts": [chart.as_json() for chart in report.charts],
            "attention": report.attention,
            "subwords": not translator.tokenizers.tgt.is_word_level,
            "marks": {SPECIALS[BOS_ID]: "start", SPECIALS[EOS_ID]: "end"},
        },
        report=report,
        subject=report.subject,
        data=translator.config.data,
        decoding=translator.decoding,
        label_smoothing=translator.config.training.label_smoothing,
        charts={chart.name: chart for chart in report.charts},
    )
