"""Corpora found by name: archives of OPUS, and the Parquet of data sets on the Hugging Face Hub.

Names become URLs, which are fetched and kept like any others. The Hub's answers are kept too, so a
data set stays at the commit where it was first found, and is read without a network from then on.
"""

import re
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, Field, ValidationError

from transformer_cli.base.errors import CorpusError, size
from transformer_cli.base.files import read_small, sha256 as sum_of
from transformer_cli.base.packages import import_extra
from transformer_cli.base.text_files import open_text
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.extensions.corpora.provenance import Fetched
from transformer_cli.extensions.corpora.settings import SourceConfig, list_sources, list_urls
from transformer_cli.extensions.corpora.units import no_such
from transformer_cli.extensions.stores.fetching import fetch, find, tell

ARCHIVES = "https://object.pouta.csc.fi/"
"""Where OPUS keeps its files."""
HUB = "https://huggingface.co/"
# The branch that the Hub converts public data sets of any format to.
_CONVERTED = "revision/refs%2Fconvert%2Fparquet?blobs=true"
_ON_THE_HUB = (
    "check the name, and that its page shows its rows: what is private, needs a login, or was not "
    "converted to Parquet, is read by an hf:// path"
)
_MAX_TERMS = 1 << 16


def list_fetched(data: DataConfig) -> tuple[Fetched, ...]:
    """Return the origin and licence of all text that was fetched into the user's cache."""
    found = [_read_archive(PurePath(url).name, url, sha) for url, sha in list_urls(data).items()]
    for source in list_sources(data):
        if source.opus is not None:
            url = archive_url(source.opus, data.src_lang, data.tgt_lang)
            found.append(_read_archive(source.opus, url))
        elif source.hf is not None:
            found.append(_describe_data_set(source))
    return tuple(dict.fromkeys(filter(None, found)))


# --- OPUS -----------------------------------------------------------------------------------------


def archive_url(name: str, src_lang: str, tgt_lang: str) -> str:
    """Return the URL of a corpus of OPUS as plain text, of a version."""
    pair = "-".join(sorted(map(opus_code, (src_lang, tgt_lang))))
    return f"{ARCHIVES}OPUS-{name}/moses/{pair}.txt.zip"


def opus_code(language: str) -> str:
    """Return a language's code as OPUS has it."""
    return language.replace("-", "_")


def fetch_corpus(name: str, src_lang: str, tgt_lang: str) -> tuple[Path, Path]:
    """Return the two sides of a corpus of OPUS, in its archive, fetched unless it is here.

    Raises:
        CorpusError: there is none of that name in these languages, or it cannot be fetched.
    """
    languages = f"--src-lang {src_lang} --tgt-lang {tgt_lang}"
    advice = f"transformer-cli init --from opus {languages} lists what OPUS has"
    archive = fetch(archive_url(name, src_lang, tgt_lang), advice=advice)
    return archive / f"*.{opus_code(src_lang)}", archive / f"*.{opus_code(tgt_lang)}"


def _read_archive(name: str, url: str, sha256: str | None = None) -> Fetched | None:
    path = find(url, sha256)
    if path is None:
        return None
    return Fetched(name=name, url=url, sha256=(sum_of(path),), licence=_read_licence(path))


def _read_licence(archive: Path) -> str | None:
    """Return the licence that the README of one of OPUS' archives states."""
    if archive.suffix.lower() != ".zip":
        return None
    with suppress(CorpusError), open_text(archive / "README") as file:
        text = file.read(_MAX_TERMS).decode(errors="replace")
        if match := re.search(r"^ *License: *(\S.*)", text, re.MULTILINE):
            link = re.sub(r"<a href=\"?([^\s\"<>]++)[^<>]*+>([^<]*+)</a>", r"\2 (\1)", match[1])
            return re.sub("<[^<>]*+>", "", link).strip()[:200] or None
    return None


# --- the Hugging Face Hub -------------------------------------------------------------------------


class _Sum(BaseModel):
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class _File(BaseModel):
    rfilename: str
    size: int | None = None
    lfs: _Sum | None = None

    @property
    def sha256(self) -> str | None:
        return None if self.lfs is None else self.lfs.sha256


class _DataSet(BaseModel):
    """What the Hub says of a data set at a commit."""

    sha: str = Field(pattern="^[0-9a-f]{40}$")
    siblings: list[_File] = []
    card: dict[str, Any] | None = Field(None, alias="cardData")


def fetch_data_set(source: SourceConfig) -> tuple[Path, ...]:
    """Return the Parquet files of a split of a data set, fetched unless they are here.

    Raises:
        CorpusError: there is no such data set or split, or it cannot be fetched.
        MissingExtraError: pyarrow is not installed.
    """
    import_extra("pyarrow", "parquet", f"hf: {source.hf}")
    found = _ask_hub(source, _CONVERTED)
    _ask_hub(source)  # here, while there is a network, for its card
    files = _list_files(source, found)
    if len(files) > 1 and any(find(url, file.sha256) is None for url, file in files.items()):
        total = size(sum(file.size or 0 for file in files.values()))
        tell(f"hf: {source.hf}: {len(files)} files, {total}")
    return tuple(fetch(url, file.sha256, advice=_ON_THE_HUB) for url, file in files.items())


def _ask_hub(source: SourceConfig, what: str = "") -> _DataSet:
    url = f"{HUB}api/datasets/{source.hf}/{what}".rstrip("/")
    path = fetch(url, say=lambda _: None, advice=_ON_THE_HUB)
    try:
        return _DataSet.model_validate_json(read_small(path))
    except (OSError, ValidationError) as error:
        problem = f"{path}: what the Hub answered for hf: {source.hf} is of an unknown form"
        raise CorpusError(f"{problem}; delete it, and try again later") from error


def _list_files(source: SourceConfig, found: _DataSet) -> dict[str, _File]:
    """Return the files of a split by URL, in order; raise CorpusError if there are none."""
    split = source.split if isinstance(source.split, str) else "train"
    wanted = f"{source.config or 'default'}/{split}"
    splits: dict[str, dict[str, _File]] = {}
    for file in sorted(found.siblings, key=lambda file: file.rfilename):
        of_split, _, name = file.rfilename.rpartition("/")  # as in de-en/train/0000.parquet
        if name.endswith(".parquet"):
            url = f"{HUB}datasets/{source.hf}/resolve/{found.sha}/{quote(file.rfilename)}"
            splits.setdefault(of_split, {})[url] = file
    if wanted not in splits:
        problem = no_such("configuration with that split", wanted, splits)
        raise CorpusError(f"hf: {source.hf}: {problem}; name them with config and split")
    return splits[wanted]


def _describe_data_set(source: SourceConfig) -> Fetched:
    found = _ask_hub(source, _CONVERTED)
    licence = (_ask_hub(source).card or {}).get("license")
    return Fetched(
        name=f"{source.hf}@{found.sha}",
        url=f"{HUB}datasets/{source.hf}/tree/{found.sha}",
        sha256=tuple(file.sha256 or "" for file in _list_files(source, found).values()),
        licence=None if licence is None else str(licence)[:200],
    )
