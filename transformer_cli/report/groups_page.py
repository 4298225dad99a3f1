"""A report on groups of runs as one self-contained HTML page."""

from transformer_cli.report.group_charts import DRAWN
from transformer_cli.report.groups_build import GroupsReport
from transformer_cli.report.rendering import render_page
from transformer_cli.training.units import duration


def render(report: GroupsReport, plotly: str) -> str:
    """Render the page.

    Args:
        report: what it says.
        plotly: what ``plotly_script`` of rendering.py gave.
    """
    charts = [*report.charts, *report.setting_charts]
    return render_page(
        "groups",
        plotly,
        {"charts": [chart.as_json() for chart in charts], "drawn": DRAWN},
        report=report,
        charts={chart.name: chart for chart in charts},
        drawn=DRAWN,
        duration=duration,
    )
