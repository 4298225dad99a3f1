"""gettext's PO files: translates empty and fuzzy entries."""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from transformer_cli.base.errors import InputError
from transformer_cli.config.languages import base_language
from transformer_cli.extensions.corpora import po as catalogs
from transformer_cli.extensions.documents.document import (
    Document,
    Edit,
    Filling,
    Part,
    Source,
    mark_accelerator,
    splice,
)

_ESCAPED = str.maketrans(
    {"\\": "\\\\", '"': '\\"'} | {sign: f"\\{name}" for name, sign in catalogs.ESCAPES.items()}
)
_WIDTH = 77  # of a line of text without quotes, as gettext wraps it
# Directives without a number or name belong to the arguments in order. Unlike a line's
# placeholders, these cover the formats of all languages: false matches only make an entry fuzzy.
_DIRECTIVE = re.compile(r"%(?:\d+\$|\()?[^\w%<]*[\d.*]*(?:<\w+>|[hlqjztLZ]*\w)?|[{}]")
_NUMBER = re.compile(r"%(\d+)\$")  # of an argument
_COUNTED_FORMATS = {f"{name}-format" for name in ("lua", "python", "qt", "ruby", "scheme")}
"""Formats in which all plural forms must have the same number of unnamed directives."""
_CHARSET = re.compile(r"(charset=\s*)CHARSET\b")  # as in a template
_CONTENT_TYPE = '"Content-Type: text/plain; charset=UTF-8\\n"'


class PoDocument(Document):
    """A PO file, whose segments are the messages of its empty and fuzzy entries."""

    def __init__(self, source: Source) -> None:
        header = b"".join((b"\n" + source.data).split(b"\nmsgid ", 2)[:2])
        super().__init__(source, catalogs.read_encoding(header, source.name))
        self._plural: catalogs.PluralForms | None = None
        self._header: catalogs.PoEntry | None = None
        self._parts: list[Part] = []

        def refuse(line: int, problem: str) -> InputError:
            return self.error(line + 1, problem)

        for entry in catalogs.read_entries(self.lines, self.encoding, refuse):
            forms = [f"msgstr[{n}]" for n in range(len(entry.forms))]
            if entry.forms != (forms if "msgid_plural" in entry.texts else ["msgstr"]):
                raise self.error(entry.line + 1, "an entry lacks its msgstr, or is out of order")
            if catalogs.is_header(entry.texts):
                self._header = self._header or entry
                self._read_header(entry.texts.get("msgstr", ""))
                continue
            places = range(0)
            is_translated = any(entry.texts[form] for form in entry.forms)
            if entry.texts["msgid"] and (entry.is_fuzzy or not is_translated):
                places = self._add(entry)
            elif entry.texts["msgid"] and not all(entry.texts[form] for form in entry.forms):
                self.leave(entry.line + 1, "some of its plural forms are empty")
            shape = (len(self._parts), entry.texts.get("msgctxt"), *entry.sources)
            self._parts.append(Part(shape, places))

    # --- reading ----------------------------------------------------------------------------------

    def _read_header(self, text: str) -> None:
        header, target = catalogs.read_header(text), self.languages[1]
        if catalogs.language_code(header.get("language", "")) not in ("", base_language(target)):
            raise InputError(
                f"{self.name}: the header says 'Language: {header['language'][:40]}', but the run "
                f"translates into '{target}'"
            )
        self._plural = catalogs.read_plural_forms(header.get("plural-forms", ""))

    def _add(self, entry: catalogs.PoEntry) -> range:
        if len(entry.sources) > 1 and self._plural is None:
            self.leave(entry.line + 1, "the header has no Plural-Forms")
            return range(0)
        place = self.place(entry.line + 1)
        segments = [mark_accelerator(text, place) for text in entry.sources]
        return self.add_unit(segments, partial(self._fill, entry))

    def structure(self, fillings: Sequence[Filling | None] = ()) -> list[Part]:
        """Return a ``Part`` for each entry; the shape is its index, context and messages."""
        return self._parts

    # --- writing ----------------------------------------------------------------------------------

    def final_edits(self, edits: Sequence[Edit]) -> list[Edit]:
        """Add a missing charset to the header; without one, gettext reads only ASCII."""
        if splice(self.text, edits).isascii():
            return []
        end = self.new_line
        if self._header is None:
            return [Edit(0, 0, end.join(('msgid ""', 'msgstr ""', _CONTENT_TYPE, "", "")))]
        text, span = self._header.texts["msgstr"], self._header.translation
        named = [_CHARSET.sub(r"\1UTF-8", self.lines[line]) for line in span]
        if "charset=" not in text.lower():
            gap = "" if text.endswith("\n") or not text else f'"\\n"{end}'
            named[-1] = f"{named[-1].rstrip()}{end}{gap}{_CONTENT_TYPE}{end}"
        return [self._edit(span, "".join(named))]

    def _edit(self, lines: range, text: str) -> Edit:
        return Edit(self.starts[lines.start], self.starts[lines.stop], text)

    def _fill(self, entry: catalogs.PoEntry, fillings: Sequence[Filling]) -> list[Edit]:
        """Return the edits that insert an entry's translations."""
        new_line, last = self.new_line, self.lines[entry.translation[-1]]
        written = new_line.join(self._written(entry, fillings)) + last[len(last.rstrip("\r\n")) :]
        edits = [self._edit(entry.translation, written)]
        edits += [self._edit(range(line, line + 1), "") for line in entry.previous]
        is_fuzzy = self._form_may_not_fit(entry) or any(
            (self._source.marks_fuzzy and filling.origin == "model")
            or filling.problem
            # msgfmt -c might refuse it, in any language's format.
            or (entry.is_format and _DIRECTIVE.findall(source) != _DIRECTIVE.findall(filling.text))
            for source, filling in zip(entry.sources, fillings, strict=True)
        )
        first = entry.line if entry.first is None else entry.first
        comments = [f"# {one.comment}{new_line}" for one in fillings if one.comment]
        there = self.lines[first : entry.line]
        edits.append(
            self._edit(range(first, first), "".join(c for c in comments if c not in there))
        )
        if is_fuzzy and not entry.is_fuzzy and not entry.flags:
            edits.append(self._edit(range(entry.line, entry.line), f"#, fuzzy{new_line}"))
        elif is_fuzzy and not entry.is_fuzzy:
            line = entry.flags[0]
            flags = re.sub(r"(#[,=])", r"\1 fuzzy,", self.lines[line], count=1)
            edits.append(self._edit(range(line, line + 1), flags))
        elif entry.is_fuzzy and not is_fuzzy:
            for line in entry.flags:
                comment = self.lines[line].strip()
                flags = ", ".join(flag for flag in catalogs.read_flags(comment) if flag != "fuzzy")
                flags = f"{comment[:2]} {flags}{new_line}" if flags else ""
                edits.append(self._edit(range(line, line + 1), flags))
        return edits

    def _written(self, entry: catalogs.PoEntry, fillings: Sequence[Filling]) -> Iterator[str]:
        texts = []
        for source, filling in zip(entry.sources, fillings, strict=True):
            start = "\n" if source.startswith("\n") else ""
            end = "\n" if source.endswith("\n") and source != "\n" else ""
            texts.append(start + filling.text.strip("\n") + end)
        if len(texts) == 1:
            yield from _wrap("msgstr", texts[0])
            return
        assert self._plural is not None
        for form in range(self._plural.number):
            is_many = form != self._plural.one or not self._uses_singular(entry)
            yield from _wrap(f"msgstr[{form}]", texts[is_many])

    def _uses_singular(self, entry: catalogs.PoEntry) -> bool:
        """Return whether one of the plural forms is translated from the singular message."""
        if self._plural is None or len(entry.sources) == 1:
            return False
        _, one, many, one_has_others = self._plural
        # The singular text "One file" would be wrong for 21 files.
        directives = [sorted(_DIRECTIVE.findall(source)) for source in entry.sources]
        return one != many and (not one_has_others or directives[0] == directives[1])

    def _form_may_not_fit(self, entry: catalogs.PoEntry) -> bool:
        """Return whether `msgfmt -c` might refuse the singular, comparing it with the plural.

        The singular may lack only the last argument of the plural, usually the number.
        """
        if not (entry.is_format and self._uses_singular(entry)):
            return False

        def number(directive: str) -> int:
            """Return the argument number in a directive, or 0 if there is none."""
            found = _NUMBER.match(directive)
            return int(found[1][:9]) if found else 0

        one, many = (sorted(_DIRECTIVE.findall(source), key=number) for source in entry.sources)
        lacking = [directive for directive in many[len(one) :] if directive != "}"]
        flags = {
            flag for line in entry.flags for flag in catalogs.read_flags(self.lines[line].strip())
        }
        is_counted = flags & _COUNTED_FORMATS and not all(each.startswith("%(") for each in many)
        return one != many[: len(one)] or len(lacking) > (0 if is_counted else 1)


def _wrap(key: str, text: str) -> Iterator[str]:
    """Yield a keyword and its text as lines of a PO file, broken where gettext breaks them."""
    escaped = text.translate(_ESCAPED)
    if "\n" not in text[:-1] and len(f'{key} "{escaped}"') <= _WIDTH + 2:
        yield f'{key} "{escaped}"'
        return
    yield f'{key} ""'
    line = ""
    for word in re.findall(r"(?:[^\s]+| +$)\s*|\s+", text):
        word = word.translate(_ESCAPED)
        if line and (len(line) + len(word) > _WIDTH or line.endswith("\\n")):
            yield f'"{line}"'
            line = ""
        line += word
    yield f'"{line}"'
