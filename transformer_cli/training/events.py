"""The training metrics as a TensorBoard event file."""

import io
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli.errors import RunError, make_visible
from transformer_cli.files import open_regular
from transformer_cli.runs.contents import EVENT_FILE_NAME
from transformer_cli.runs.environment import SESSION_KIND
from transformer_cli.runs.records import read_records

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

_PREFIX = "events.out.tfevents."
# Keys that are stored elsewhere in an event, or are not plotted.
_NO_CURVES = frozenset(
    {"kind", "step", "seconds", "epoch", "best", "tgt_tokens", "tokenize", "select", "samples"}
)


@dataclass(frozen=True)
class EventLog:
    """Appends to an event file.

    Each session writes a new file with all records of metrics.jsonl. Wall times leave out pauses
    between sessions, so that TensorBoard's relative time is the time spent training.
    """

    path: Path
    start_time: float
    """When the training began, less all pauses, in seconds since 1970."""

    @classmethod
    def open(cls, directory: Path, metrics: Path, start_time: float) -> "EventLog":
        """Replace the run's event files by one with all records so far.

        Args:
            directory: the directory of event files.
            metrics: metrics.jsonl.
            start_time: when the training began, less all pauses, in seconds since 1970.

        Raises:
            RunError, OSError: it cannot be written.
        """
        # A running TensorBoard continues with the file whose name sorts last.
        log = cls(directory / f"{_PREFIX}{int(start_time):010d}", start_time)
        directory.mkdir(exist_ok=True)
        for older in directory.iterdir():
            if EVENT_FILE_NAME.fullmatch(older.name):
                with suppress(PermissionError):  # on Windows, TensorBoard has it open
                    older.unlink()
        log.path.touch(exist_ok=False)  # never write through a link
        log._write([_version_event(start_time), *map(log._to_event, read_records(metrics))])
        return log

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record.

        Raises:
            RunError: it cannot be written completely.
        """
        self._write([self._to_event(record)])

    def _write(self, events: "Iterable[Event | None]") -> None:
        # Takes a quarter of a second to import.
        from tensorboard.summary.writer.record_writer import RecordWriter

        data = io.BytesIO()
        framed = RecordWriter(data)
        for event in events:
            if event is not None:
                framed.write(event.SerializeToString())
        try:
            with open_regular(self.path, "ab") as file:
                file.write(data.getvalue())
        except OSError as error:
            raise RunError(
                f"{self.path}: cannot be written: {error.strerror}; mend that, and the same "
                "command resumes from the last checkpoint"
            ) from error

    def _to_event(self, record: Mapping[str, Any]) -> "Event | None":
        """Convert a record; return None if it has nothing to plot."""
        if record.get("kind") == SESSION_KIND:
            return None
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        try:
            values = [
                Summary.Value(tag=f"{record['kind']}/{key}", simple_value=value)
                for key, value in record.items()
                if key not in _NO_CURVES and value is not None
            ]
            if record.get("samples"):
                values.append(_to_text("validation/samples", format_samples(record["samples"])))
            return Event(
                wall_time=self.start_time + record["seconds"],
                step=record["step"],
                summary=Summary(value=values),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None


def format_samples(samples: Iterable[Mapping[str, str]]) -> str:
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


def _to_text(tag: str, text: str) -> "Summary.Value":
    """Return a value of TensorBoard's text tab."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    plugin = SummaryMetadata.PluginData(plugin_name="text")
    tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode("utf-8", "replace")])
    return Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin), tensor=tensor)


def _version_event(start_time: float) -> "Event":
    """Return the first event of a file, which names its format."""
    from tensorboard.compat.proto.event_pb2 import Event

    return Event(wall_time=start_time, file_version="brain.Event:2")
