"""What metrics.jsonl says, once more as an event file of TensorBoard."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_cli.errors import RunError
from transformer_cli.runs.contents import EVENT_FILE_NAME
from transformer_cli.runs.environment import KIND
from transformer_cli.runs.records import read_records

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event

_PREFIX = "events.out.tfevents."
# A record's kind, place and time stand elsewhere in an event; the others make no curve.
_NO_CURVES = frozenset({"kind", "step", "seconds", "epoch", "best", "tgt_tokens"})


class EventLog:
    """An event file with all records so far, to which new ones are appended.

    It is made anew by each session, so that it has neither more nor less than metrics.jsonl, and
    nothing twice. Each point is put where it would stand in time if the run had been trained in
    one go: what TensorBoard shows as relative time is time spent training.

    Args:
        directory: for event files alone; a run's older ones in it are removed.
        metrics: metrics.jsonl, as it is when the session opens.
        began: when the training began, less all pauses, in seconds since 1970.

    Raises:
        RunError, OSError: it cannot be written.
    """

    def __init__(self, directory: Path, metrics: Path, began: float) -> None:
        self._began = began
        # Names rise with time, so that a TensorBoard that is watching goes on to the new one.
        self.path = directory / f"{_PREFIX}{int(began):010d}"
        directory.mkdir(exist_ok=True)
        for older in directory.iterdir():
            if EVENT_FILE_NAME.fullmatch(older.name):
                older.unlink()
        self.path.touch(exist_ok=False)  # what somebody links to there is not written to
        events = [_opening(began), *map(self._event, read_records(metrics))]
        self._write(events)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record.

        Raises:
            RunError: it cannot be written; half of it may be.
        """
        self._write([self._event(record)])

    def _write(self, events: "Iterable[Event | None]") -> None:
        # With torch there, it takes a quarter of a second.
        from tensorboard.summary.writer.record_writer import RecordWriter

        data = io.BytesIO()
        framed = RecordWriter(data)
        for event in events:
            if event is not None:
                framed.write(event.SerializeToString())
        try:
            with self.path.open("ab") as file:
                file.write(data.getvalue())
        except OSError as error:
            raise RunError(
                f"{self.path}: cannot be written: {error.strerror}; mend that, and the same "
                "command goes on from the last checkpoint"
            ) from error

    def _event(self, record: Mapping[str, Any]) -> "Event | None":
        """A record's numbers; None, if it has none for a curve."""
        if record.get("kind") == KIND:
            return None
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        try:
            values = [
                Summary.Value(tag=f"{record['kind']}/{key}", simple_value=value)
                for key, value in record.items()
                if key not in _NO_CURVES
            ]
            return Event(
                wall_time=self._began + record["seconds"],
                step=record["step"],
                summary=Summary(value=values),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None


def _opening(began: float) -> "Event":
    """What a file starts with: its format."""
    from tensorboard.compat.proto.event_pb2 import Event

    return Event(wall_time=began, file_version="brain.Event:2")
