"""Write the records of a training run to a TensorBoard event file."""

import io
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.metrics_log import SESSION_KIND, Record, append_to_log, read_records
from transformer_cli.training.session import Observer

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event

_EVENT_FILE_NAME = re.compile(r"events\.out\.tfevents\.\d{10,}")
# Keys that an event stores elsewhere, or that are not plotted.
_NO_CURVES = frozenset(
    {"kind", "step", "seconds", "epoch", "best", "tgt_tokens", "tokenize", "select", "samples"}
)


class TensorBoardObserver(Observer):
    """An observer that writes to tensorboard/ in a run, so that TensorBoard can show its progress.

    Each session writes a new file with all records in metrics.jsonl. Wall times leave out the
    pauses between sessions, so that TensorBoard's relative time is the time spent training.
    """

    writes = "tensorboard"

    def on_begin(self, run: RunDirectory, step: int, start_time: float) -> None:
        """Replace the run's event files with one that has all records so far."""
        from tensorboard.compat.proto.event_pb2 import Event

        self._start_time = start_time
        # A running TensorBoard continues with the file whose name sorts last.
        self.path = run.path / self.writes / f"events.out.tfevents.{int(start_time):010d}"
        self.path.parent.mkdir(exist_ok=True)
        for older in self.path.parent.iterdir():
            if _EVENT_FILE_NAME.fullmatch(older.name):
                with suppress(PermissionError):  # on Windows, if TensorBoard has it open
                    older.unlink()
        self.path.touch(exist_ok=False)  # never write through a link
        # The first event names the format.
        version = Event(wall_time=start_time, file_version="brain.Event:2")
        self._write([version, *map(self._to_event, read_records(run.metrics))])

    def on_record(self, record: Record) -> None:
        self._write([self._to_event(record)])

    def _write(self, events: "Iterable[Event | None]") -> None:
        # This import takes a quarter of a second.
        from tensorboard.summary.writer.record_writer import RecordWriter

        data = io.BytesIO()
        framed = RecordWriter(data)
        for event in events:
            if event is not None:
                framed.write(event.SerializeToString())
        append_to_log(self.path, data.getvalue())

    def _to_event(self, record: Mapping[str, Any]) -> "Event | None":
        """Convert a record to an event; return None if it has nothing to plot."""
        if record.get("kind") == SESSION_KIND:
            return None
        from tensorboard.compat.proto import event_pb2, summary_pb2

        try:
            values = [
                summary_pb2.Summary.Value(tag=f"{record['kind']}/{key}", simple_value=value)
                for key, value in record.items()
                if key not in _NO_CURVES and value is not None
            ]
            return event_pb2.Event(
                wall_time=self._start_time + record["seconds"],
                step=record["step"],
                summary=summary_pb2.Summary(value=values),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
