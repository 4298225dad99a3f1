"""List the corpora that OPUS, an open collection of parallel corpora, has in two languages."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ValidationError

from transformer_cli.base.errors import CorpusError
from transformer_cli.extensions.corpora.by_name import archive_url, opus_code
from transformer_cli.extensions.corpora.settings import TWO_NAMES
from transformer_cli.extensions.corpora.units import no_such
from transformer_cli.extensions.stores.fetching import CHUNK_SECONDS, TIMEOUT
from transformer_cli.extensions.stores.objects import call_in_time

API = "https://opus.nlpl.eu/opusapi/"
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
