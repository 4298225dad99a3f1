"""What the site has besides docs/: README, CONTRIBUTING, CHANGELOG and SECURITY."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)#]*)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of the extensions that are here."""
    pages = sorted(Path(config.docs_dir).glob("extensions/*.md"))
    listed = [f"extensions/{page.name}" for page in pages]
    assert config.nav is not None
    config.nav = [*config.nav, *([{"Extensions": listed}] if listed else [])]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie beside docs/."""
    root = Path(config.docs_dir).parent
    for source, page in PAGES.items():
        text = (root / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links at the pages above; of links to other files of the tree, leave the text."""
    folder = posixpath.dirname(page.file.src_uri)

    def as_seen_from_docs(link: re.Match[str]) -> str:
        text, anchor = link[1], link[3] or ""
        path = posixpath.normpath(posixpath.join(folder, link[2]))
        if (made := PAGES.get(path.removeprefix("../"))) is not None:
            return f"[{text}]({posixpath.relpath(made, folder or '.')}{anchor})"
        if path.startswith("../") or path.endswith((".ipynb", "LICENSE")):
            return text
        return link[0]

    return _LINK.sub(as_seen_from_docs, markdown)
