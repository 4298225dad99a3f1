"""Options of `translate` for documents, and for text with a translation memory or a report."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import import_extra, lazy_imports
from transformer_cli.cli.declaring import flag, option
from transformer_cli.cli.translate import InputOptions, TranslateOptions
from transformer_cli.extensions.documents import manifest

with lazy_imports():
    from transformer_cli.base import locations
    from transformer_cli.data import corpus
    from transformer_cli.extensions.corpora import options as tables
    from transformer_cli.extensions.documents import command, formats
    from transformer_cli.inference import plain_text

if TYPE_CHECKING:
    from transformer_cli.cli.translation import InputFormat


@dataclass(frozen=True)
class DocumentOptions(InputOptions):
    """The options ``--memory``, ``--report`` and ``--no-fuzzy``, for translators of documents."""

    heading = "Documents and tables"
    about = f"A document ({manifest.SHOWN}) keeps its format and any translations it has."
    order = 1
    replaces_input = True  # because a document is held in memory
    memory: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "Reuse the translations in this TMX, PO or TSV file; repeatable.",
            marks=("reads",),
        ),
    ] = None
    report: Annotated[
        Path | None,
        option(
            "FILE",
            "Write an HTML page of the translations, doubtful ones first.",
            marks=("writes",),
        ),
    ] = None
    no_fuzzy: Annotated[bool, flag("PO: do not mark new translations as fuzzy.", "--no-fuzzy")] = (
        False
    )

    def matches(self, given: TranslateOptions) -> bool:
        if formats.format_of(given.input_):
            return True
        is_asked = (self.memory or self.report) and given.reads_file
        return bool(is_asked) and not given.extra(tables.TableOptions).matches(given)

    def fingerprint(self) -> dict[str, str]:
        found = [file for path in self.memory or () for file in locations.find_files(path)]
        return super().fingerprint() | ({"memory": corpus.hash_files(found)} if found else {})

    def check(self, given: TranslateOptions) -> None:
        for problem in self._find_problems(given):
            raise UsageError(f"translate: {problem}")
        if self.report is not None:
            import_extra("jinja2", "report", "--report")

    def _find_problems(self, given: TranslateOptions) -> Iterator[str]:
        entry = formats.format_of(given.input_)
        if self.no_fuzzy and (entry is None or entry.name != "po"):
            yield "--no-fuzzy is for PO files; leave it out"
        if given.kind is self:
            yield from self._find_problems_of_document(given)
            written = formats.format_of(given.output)
            if str(given.output) == "-":
                yield "documents, --memory and --report need an output file; name it with -o"
            elif (written and written.name) != (entry and entry.name):
                yield f"-o: a document keeps its format; give a name that ends like {given.input_}"
        elif self.memory or self.report:
            name = "--memory" if self.memory else "--report"
            yield f"{name} is for text files and documents, not tables and pipes; leave it out"
        elif formats.format_of(given.output) is not None:
            advice = "give an input of this format with -i, or rename -o"
            yield f"-o {given.output}: a document can only be made from a document; {advice}"

    def check_one(self, given: TranslateOptions) -> None:
        if given.kind is self:
            for problem in self._find_problems_of_document(given):
                raise UsageError(f"translate: {given.input_}: {problem}")
        elif self.memory:
            raise UsageError(f"translate: {given.input_}: --memory is not for tables; leave it out")

    def _find_problems_of_document(self, given: TranslateOptions) -> Iterator[str]:
        """Yield a problem for each given option that is only for lines of text."""
        for_lines = [name for name, _ in given.marked("lines")]
        for name in [*for_lines, *(["--errors"] if given.errors != "strict" else [])]:
            yield f"{name} is for lines and tables, but -i names a document; leave it out"

    def open(self, given: TranslateOptions) -> "InputFormat":
        if formats.format_of(given.input_) is None:
            plain_text.check_is_text(given.input_, given.describe_kinds())
        return command.DocumentFormat()
