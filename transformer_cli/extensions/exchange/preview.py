"""What the summary before a training says about exports."""

from collections.abc import Iterator

from transformer_cli.training.summary import PlannedTraining, Preview, Row


class ExportPreview(Preview):
    """Says early if the model cannot be exported to some formats."""

    def rows(self, planned: PlannedTraining) -> Iterator[Row]:
        """Yield what exports of the model will lack."""
        if not planned.data.tokenizers.reserved:
            return
        from transformer_cli.extensions.exchange.formats import describe_limits

        if limits := describe_limits(planned.config, planned.data.tokenizers):
            yield "export", limits
