"""Find corpora by name: OPUS archives, which OPUS lists, and Parquet data sets of the Hub.

Names become URLs, and the files there are downloaded and cached. The Hub's answers are cached,
so later runs use the same commit of a data set, and need no network.
"""

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from transformer_cli.base.errors import CorpusError
from transformer_cli.base.files import read_small
from transformer_cli.base.messages import size
from transformer_cli.base.packages import import_extra
from transformer_cli.extensions.corpora.settings import TWO_NAMES, SourceConfig
from transformer_cli.extensions.corpora.units import no_such
from transformer_cli.extensions.stores.fetching import CHUNK_SECONDS, TIMEOUT, fetch, find, tell
from transformer_cli.extensions.stores.objects import call_in_time

API = "https://opus.nlpl.eu/opusapi/"
ARCHIVES = "https://object.pouta.csc.fi/"  # the base URL of OPUS's archives
HUB = "https://huggingface.co/"
# The branch to which the Hub converts public data sets of any format.
_CONVERTED = "revision/refs%2Fconvert%2Fparquet?blobs=true"
_ON_THE_HUB = (
    "check the name, and that its page shows its rows; for a data set that is private, needs a "
    "login or was not converted to Parquet, use an hf:// path"
)


# --- OPUS -----------------------------------------------------------------------------------------


def archive_url(name: str, src_lang: str, tgt_lang: str) -> str:
    """Return the URL of an OPUS corpus in plain text; ``name`` has the form CORPUS/VERSION."""
    pair = "-".join(sorted(map(opus_code, (src_lang, tgt_lang))))
    return f"{ARCHIVES}OPUS-{name}/moses/{pair}.txt.zip"


def opus_code(language: str) -> str:
    """Return OPUS's code for a language, e.g. pt_BR for pt-BR."""
    return language.replace("-", "_")


def fetch_corpus(name: str, src_lang: str, tgt_lang: str) -> tuple[Path, Path]:
    """Return the two sides' paths, with wildcards, in an OPUS archive; download it if needed.

    Raise CorpusError if OPUS has no such corpus in these languages, or if the download fails.
    """
    languages = f"--src-lang {src_lang} --tgt-lang {tgt_lang}"
    advice = f"transformer-cli init --from opus {languages} lists what OPUS has"
    archive = fetch(archive_url(name, src_lang, tgt_lang), advice=advice)
    return archive / f"*.{opus_code(src_lang)}", archive / f"*.{opus_code(tgt_lang)}"


# None for an unknown count, where OPUS has ''.
_Count = Annotated[int | None, BeforeValidator(lambda count: None if count == "" else count)]


class Release(BaseModel):
    """The latest version of a corpus in two languages, as OPUS's API describes it."""

    corpus: str
    version: str
    url: str
    alignment_pairs: _Count
    size: _Count  # the size of the archive, in KB

    @property
    def name(self) -> str:
        """The corpus and its version as CORPUS/VERSION, the form of a source's setting ``opus``."""
        return f"{self.corpus}/{self.version}"


class _Answer(BaseModel):
    corpora: list[Release]


def list_releases(src_lang: str, tgt_lang: str) -> list[Release]:
    """Return the latest versions of all corpora in two languages, the largest first.

    Raise CorpusError if OPUS does not answer, or has nothing in these languages.
    """
    import requests

    source, target = sorted(map(opus_code, (src_lang, tgt_lang)))
    question = {"source": source, "target": target, "preprocessing": "moses", "version": "latest"}
    try:
        answer = call_in_time(CHUNK_SECONDS, requests.get, API, params=question, timeout=TIMEOUT)
        answer.raise_for_status()
        found = _Answer.model_validate_json(answer.content).corpora
    except requests.RequestException as error:
        status = None if error.response is None else error.response.status_code
        problem = f"the server answered {status}" if status else "no connection"
        raise CorpusError(f"{API}: cannot reach OPUS: {problem}; try again later") from error
    except TimeoutError as error:
        raise CorpusError(f"{API}: cannot reach OPUS: {error}; try again later") from error
    except ValidationError as error:
        raise CorpusError(f"{API}: cannot understand the answer of OPUS") from error

    def is_usable(release: Release) -> bool:
        # Some corpora have a second, smaller archive with another name.
        path = urlsplit(archive_url(release.name, src_lang, tgt_lang)).path
        return bool(re.fullmatch(TWO_NAMES, release.name)) and release.url.endswith(path)

    releases = sorted(filter(is_usable, found), key=lambda release: -(release.alignment_pairs or 0))
    if not releases:
        problem = f"OPUS has no text in '{src_lang}' and '{tgt_lang}'"
        raise CorpusError(f"{API}: {problem}; https://opus.nlpl.eu lists its languages")
    return releases


def find_release(name: str, src_lang: str, tgt_lang: str) -> Release:
    """Return a corpus's latest version; raise CorpusError if OPUS lacks it or does not answer."""
    releases = list_releases(src_lang, tgt_lang)
    for release in releases:
        if name in (release.corpus, release.name):
            return release
    problem = no_such("corpus", name, [release.corpus for release in releases])
    raise CorpusError(f"opus:{name}: in '{src_lang}' and '{tgt_lang}', OPUS has {problem}")


# --- the Hugging Face Hub -------------------------------------------------------------------------


class _Sum(BaseModel):
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class _File(BaseModel):
    rfilename: str
    size: int | None = None
    lfs: _Sum | None = None  # of large files

    @property
    def sha256(self) -> str | None:
        return self.lfs.sha256 if self.lfs else None


class _DataSet(BaseModel):
    """The Hub's JSON description of a data set: its commit and its files."""

    sha: str = Field(pattern="^[0-9a-f]{40}$")
    siblings: list[_File] = []


def fetch_data_set(source: SourceConfig) -> tuple[Path, ...]:
    """Return the paths of the Parquet files of a data set's split; download them if needed.

    Raise CorpusError if there is no such data set or split, or if the download fails, and
    MissingExtraError if pyarrow is not installed.
    """
    import_extra("pyarrow", "parquet", f"hf: {source.hf}")
    files = _list_files(source, _ask_hub(source))
    if len(files) > 1 and any(find(url, file.sha256) is None for url, file in files.items()):
        total = size(sum(file.size or 0 for file in files.values()))
        tell(f"hf: {source.hf}: {len(files)} files, {total}")
    return tuple(fetch(url, file.sha256, advice=_ON_THE_HUB) for url, file in files.items())


def _ask_hub(source: SourceConfig) -> _DataSet:
    url = f"{HUB}api/datasets/{source.hf}/{_CONVERTED}"
    path = fetch(url, say=lambda _: None, advice=_ON_THE_HUB)
    try:
        return _DataSet.model_validate_json(read_small(path))
    except (OSError, ValidationError) as error:
        problem = f"{path}: cannot understand the Hub's answer for hf: {source.hf}"
        raise CorpusError(f"{problem}; delete the file, and try again later") from error


def _list_files(source: SourceConfig, found: _DataSet) -> dict[str, _File]:
    """Return a split's files, sorted by name and keyed by URL; raise CorpusError if it has none."""
    split = source.split if isinstance(source.split, str) else "train"
    wanted = f"{source.config or 'default'}/{split}"
    splits: dict[str, dict[str, _File]] = {}
    for file in sorted(found.siblings, key=lambda file: file.rfilename):
        of_split, _, name = file.rfilename.rpartition("/")  # e.g. de-en/train/0000.parquet
        if name.endswith(".parquet"):
            url = f"{HUB}datasets/{source.hf}/resolve/{found.sha}/{quote(file.rfilename)}"
            splits.setdefault(of_split, {})[url] = file
    if wanted not in splits:
        problem = no_such("configuration with that split", wanted, splits)
        raise CorpusError(f"hf: {source.hf}: {problem}; set config and split")
    return splits[wanted]
