"""Find the data set Multi30k, task 1 (Elliott et al. 2016), on disk, or download it."""

import os
from pathlib import Path

from transformer_cli.base.errors import CorpusError, MissingExtraError
from transformer_cli.base.files import sha256
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.kinds import CorpusKind
from transformer_cli.extensions.stores import fetching
from transformer_cli.extensions.stores.settings import Multi30kData

# The SHA-256 of every packed file at the commit below.
SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_mscoco.de.gz": "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338",
    "test_2017_mscoco.en.gz": "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58",
    "test_2018_flickr.de.gz": "ddd0130c7d97482dc5197a02141dae8dd79f20f03586c480d675c09a32daf608",
    "test_2018_flickr.en.gz": "ef4f4844037d4c5dea75c9a8ed5fd78905967a26f67c255e230cc9780032654d",
}

SPLITS = tuple(dict.fromkeys(name.partition(".")[0] for name in SHA256))

DIRECTORY = Path("data/multi30k")  # in the current directory

_COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
_WEB_PAGE = f"https://github.com/multi30k/dataset/tree/{_COMMIT}/data/task1/raw"
BASE_URL = f"https://raw.githubusercontent.com/multi30k/dataset/{_COMMIT}/data/task1/raw/"


class Multi30kKind(CorpusKind[Multi30kData]):
    """The data kind ``multi30k``: the Multi30k captions."""

    def split_names(self) -> list[str]:
        """Return the names of the published splits."""
        return list(SPLITS)

    def open_split(self, split: str, place: Path | None) -> ParallelFiles:
        """Return a split's two files; see ``fetch``."""
        return ParallelFiles(*fetch(split, self.data.src_lang, self.data.tgt_lang))

    def is_here(self, split: str, place: Path | None) -> bool:
        """Return whether a split's files are on disk; raise CorpusError if one is unusable."""
        return find(split, self.data.src_lang, self.data.tgt_lang) is not None


def fetch(split: str, src_lang: str, tgt_lang: str) -> tuple[Path, Path]:
    """Find a split's two files on disk, or download them.

    The search covers ``./data/multi30k``, the directory in ``$MULTI30K_DIR``, and the download
    cache. Both files are gzip-compressed, and must have the published SHA-256.

    Raises:
        CorpusError: a file on disk is not the published one, or a file cannot be downloaded.
    """
    src, tgt = (
        _find(f"{split}.{lang}.gz") or _download(split, lang) for lang in (src_lang, tgt_lang)
    )
    return src, tgt


def find(split: str, src_lang: str, tgt_lang: str) -> tuple[Path, Path] | None:
    """Return the files that ``fetch`` finds on disk, or None if it would have to download one."""
    src, tgt = (_find(f"{split}.{lang}.gz") for lang in (src_lang, tgt_lang))
    return None if src is None or tgt is None else (src, tgt)


def _directories() -> dict[Path, str]:
    """Return a dict of the directories to search, with their descriptions for messages."""
    places = {DIRECTORY: f"{DIRECTORY}"}
    if from_user := os.environ.get("MULTI30K_DIR"):
        is_there = "" if Path(from_user).is_dir() else ", which is not a directory"
        places[Path(from_user)] = f"$MULTI30K_DIR ({from_user}{is_there})"
    return places


def _find(name: str) -> Path | None:
    for path in (directory / name for directory in _directories()):
        try:
            found = sha256(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise CorpusError(
                f"{path}: cannot be read ({error.strerror}); check its permissions, or delete it "
                "to download it again"
            ) from error
        if found != SHA256[name]:
            raise CorpusError(
                f"{path}: not the published file (its SHA-256 begins {found[:12]}, not "
                f"{SHA256[name][:12]}); delete it to download it again"
            )
        return path
    return fetching.find(BASE_URL + name, SHA256[name])


def _download(split: str, lang: str) -> Path:
    name = f"{split}.{lang}.gz"
    try:
        return fetching.fetch(BASE_URL + name, SHA256[name])
    except (CorpusError, MissingExtraError) as error:
        raise CorpusError(
            f"{error}; it is not in {' or '.join(_directories().values())}: put "
            f"{split}.de.gz and {split}.en.gz from {_WEB_PAGE} into {DIRECTORY} by hand, or into "
            "the directory in $MULTI30K_DIR"
        ) from error
