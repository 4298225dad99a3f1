"""What the summary before a training says about exports."""

from collections.abc import Iterator

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError
from transformer_cli.training.summary import PlannedTraining, Preview, Row


class ExportPreview(Preview):
    """Says early which formats cannot have a model with reserved tokens."""

    def rows(self, planned: PlannedTraining) -> Iterator[Row]:
        config, tokenizers = planned.config, planned.data.tokenizers
        if not tokenizers.reserved:
            return
        from transformer_cli.extensions.exchange.formats import INTERFACE, check_expressible

        refused = []
        for name, entry in registry.entries(INTERFACE).items():
            try:
                check_expressible(entry, config, tokenizers)
            except UsageError:
                refused.append(name)
        yield (
            "export",
            f"{' and '.join(tokenizers.reserved)}: no export to {' or '.join(refused)}; programs "
            "that search ctranslate2 or onnx themselves need this package's tokenizers",
        )
