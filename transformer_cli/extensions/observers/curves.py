"""The training curves, as a picture."""

import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli.base.writing import whole_file
from transformer_cli.config.choices import METRICS
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.metrics_log import SESSION_KIND, read_records
from transformer_cli.training.session import Observer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, which colour-blind people can tell apart.
_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"

Records = Sequence[Mapping[str, Any]]


class CurvesObserver(Observer):
    """Draws curves.png at the end of each session."""

    writes = "curves.png"

    def on_begin(self, run: RunDirectory, step: int, start_time: float) -> None:
        self._run = run

    def on_end(self) -> None:
        draw_curves(self._run.metrics, self._run.path / self.writes, str(self._run.path))


def draw_curves(metrics: Path, picture: Path, title: str) -> None:
    """Draw loss, perplexity, BLEU or chrF, and learning rate, and mark the best step.

    The picture depends on the records and the title only; without records none is drawn.
    matplotlib may raise anything.
    """
    records = [record for record in read_records(metrics) if record["kind"] != SESSION_KIND]
    if not records:
        return
    # It logs caches and fonts.
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Takes a second to import.
        import matplotlib
        from matplotlib.figure import Figure

        # The user's matplotlibrc may need what is not installed, such as LaTeX.
        with matplotlib.rc_context(dict(matplotlib.rcParamsDefault)):
            figure = Figure(figsize=(10, 6.4), dpi=110)
            figure.subplots_adjust(0.065, 0.085, 0.985, 0.88, wspace=0.18, hspace=0.3)
            figure.suptitle(title, x=0.065, y=0.975, ha="left", size=13, parse_math=False)
            _plot_panels(list(figure.subplots(2, 2, sharex=True).flat), records)
            with whole_file(picture) as temporary, temporary.open("wb") as file:
                figure.savefig(file, format="png", metadata={"Software": None})


def _plot_panels(panels: Sequence["Axes"], records: Records) -> None:
    train = [record for record in records if record["kind"] == "train"]
    validation = [record for record in records if record["kind"] == "validation"]
    best = max((record["step"] for record in validation if record.get("best")), default=None)
    # What the best step is chosen by.
    select = next((each["select"] for each in reversed(validation) if "select" in each), "bleu")
    score = "bleu" if select == "loss" else select
    loss, perplexity, scores, rate = panels
    _plot_curve(loss, train, "loss", "training: what is minimised", _BLUE)
    _plot_curve(loss, validation, "loss", "validation", _ORANGE, best)
    _plot_curve(perplexity, train, "perplexity", "training", _BLUE)
    _plot_curve(perplexity, validation, "perplexity", "validation", _ORANGE, best)
    _plot_curve(scores, validation, score, "validation", _ORANGE, best)
    _plot_curve(rate, train, "learning_rate", "", _GREEN)
    if any(math.isfinite(record["perplexity"]) for record in records):
        perplexity.set_yscale("log")
    names = ("loss", "perplexity", METRICS[score].label, "learning rate")
    for axes, name in zip(panels, names, strict=True):
        if best is not None:
            axes.axvline(best, color="#888888", linewidth=0.8, linestyle=":")
        _format_axes(axes, name, records[-1]["step"])
    perplexity.yaxis.set_major_formatter("{x:,g}")
    for axes in (scores, rate):
        axes.set_ylim(bottom=0)
        axes.set_xlabel("step")


def _plot_curve(
    axes: "Axes", records: Records, key: str, label: str, colour: str, best: int | None = None
) -> None:
    """Plot one curve, with a ring at the best step and its value in the legend."""
    finite = (record for record in records if math.isfinite(record.get(key, math.nan)))
    values = {record["step"]: record[key] for record in finite}
    if best is not None and best in values:
        label = f"{label} (best, step {best:,}: {values[best]:.2f})"
        axes.plot(best, values[best], "o", color=colour, fillstyle="none", markersize=9)
    style = "-o" if len(values) < 40 else "-"
    axes.plot(list(values), list(values.values()), style, color=colour, markersize=3, label=label)


def _format_axes(axes: "Axes", name: str, last_step: int) -> None:
    axes.set_title(name, loc="left", size=11, weight="bold")
    axes.set_xlim(0, last_step * 1.02)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8.5, frameon=False)
