"""Find corpora by name: OPUS archives, and Parquet data sets on the Hugging Face Hub.

Names become URLs, and the files there are downloaded and cached. The Hub's answers are cached,
so later runs use the same commit of a data set, and need no network.
"""

from pathlib import Path
from urllib.parse import quote

from pydantic import AliasPath, BaseModel, Field, ValidationError

from transformer_cli.base.errors import CorpusError
from transformer_cli.base.files import read_small
from transformer_cli.base.messages import size
from transformer_cli.base.packages import import_extra
from transformer_cli.extensions.corpora.settings import SourceConfig
from transformer_cli.extensions.corpora.units import no_such
from transformer_cli.extensions.stores.fetching import fetch, find, tell

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


# --- the Hugging Face Hub -------------------------------------------------------------------------


class _File(BaseModel):
    rfilename: str
    size: int | None = None
    sha256: str | None = Field(
        None, validation_alias=AliasPath("lfs", "sha256"), pattern="^[0-9a-f]{64}$"
    )


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
