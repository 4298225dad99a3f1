"""The training curves: a picture, and a TensorBoard event file."""

import io
import logging
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli.base.errors import make_visible
from transformer_cli.base.metrics import METRICS
from transformer_cli.base.writing import whole_file
from transformer_cli.runs.metrics_log import SESSION_KIND, append_to_log, read_records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from tensorboard.compat.proto.event_pb2 import Event

# Okabe and Ito's palette, which colour-blind people can tell apart.
_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"

_PREFIX = "events.out.tfevents."
_EVENT_FILE_NAME = re.compile(r"events\.out\.tfevents\.\d{10,}")
# Keys that are stored elsewhere in an event, or are not plotted.
_NO_CURVES = frozenset(
    {"kind", "step", "seconds", "epoch", "best", "tgt_tokens", "tokenize", "select", "samples"}
)

Records = Sequence[Mapping[str, Any]]


def draw_curves(metrics: Path, picture: Path, title: str, select: str = "bleu") -> None:
    """Draw loss, perplexity, BLEU or chrF, and learning rate, and mark the best step.

    The picture depends on the records and arguments only; without records none is drawn. The best
    step is chosen by ``select``, a key of ``METRICS``. matplotlib may raise anything.
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
            _plot_panels(list(figure.subplots(2, 2, sharex=True).flat), records, select)
            with whole_file(picture) as temporary, temporary.open("wb") as file:
                figure.savefig(file, format="png", metadata={"Software": None})


def _plot_panels(panels: Sequence["Axes"], records: Records, select: str) -> None:
    train = [record for record in records if record["kind"] == "train"]
    validation = [record for record in records if record["kind"] == "validation"]
    best = max((record["step"] for record in validation if record.get("best")), default=None)
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


@dataclass(frozen=True)
class EventLog:
    """Appends to an event file of TensorBoard.

    Each session writes a new file with all records of metrics.jsonl. Wall times leave out pauses
    between sessions, so that TensorBoard's relative time is the time spent training.
    """

    path: Path
    start_time: float  # when the training began, less all pauses, in seconds since 1970

    @classmethod
    def open(cls, directory: Path, metrics: Path, start_time: float) -> "EventLog":
        """Replace the run's event files by one with all records so far."""
        from tensorboard.compat.proto.event_pb2 import Event

        # A running TensorBoard continues with the file whose name sorts last.
        log = cls(directory / f"{_PREFIX}{int(start_time):010d}", start_time)
        directory.mkdir(exist_ok=True)
        for older in directory.iterdir():
            if _EVENT_FILE_NAME.fullmatch(older.name):
                with suppress(PermissionError):  # on Windows, TensorBoard has it open
                    older.unlink()
        log.path.touch(exist_ok=False)  # never write through a link
        # The first event names the format.
        version = Event(wall_time=start_time, file_version="brain.Event:2")
        log._write([version, *map(log._to_event, read_records(metrics))])
        return log

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record; see ``append_to_log``."""
        self._write([self._to_event(record)])

    def _write(self, events: "Iterable[Event | None]") -> None:
        # Takes a quarter of a second to import.
        from tensorboard.summary.writer.record_writer import RecordWriter

        data = io.BytesIO()
        framed = RecordWriter(data)
        for event in events:
            if event is not None:
                framed.write(event.SerializeToString())
        append_to_log(self.path, data.getvalue())

    def _to_event(self, record: Mapping[str, Any]) -> "Event | None":
        """Convert a record; return None if it has nothing to plot."""
        if record.get("kind") == SESSION_KIND:
            return None
        from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2

        try:
            values = [
                summary_pb2.Summary.Value(tag=f"{record['kind']}/{key}", simple_value=value)
                for key, value in record.items()
                if key not in _NO_CURVES and value is not None
            ]
            if samples := record.get("samples"):
                text = _format_samples(samples).encode("utf-8", "replace")
                plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
                values.append(
                    summary_pb2.Summary.Value(
                        tag="validation/samples",
                        metadata=summary_pb2.SummaryMetadata(plugin_data=plugin),
                        tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[text]),
                    )
                )
            return event_pb2.Event(
                wall_time=self.start_time + record["seconds"],
                step=record["step"],
                summary=summary_pb2.Summary(value=values),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None


def _format_samples(samples: Iterable[Mapping[str, str]]) -> str:
    """Return samples as TensorBoard, which renders Markdown, shows them as they are.

    Each line is part of an indented block of code, which nothing in a line can end.
    """
    return "\n    \n".join(
        "\n".join(
            f"    {label}  {make_visible(' '.join(sample[label].split()))}"
            for label in ("source", "reference", "translation")
        )
        for sample in samples
    )
