"""What the site has besides docs/: README, CONTRIBUTING, CHANGELOG and SECURITY."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)#]*)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie beside docs/."""
    root = Path(config.docs_dir).parent
    for source, page in PAGES.items():
        text = (root / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Point links at the pages above; of links to other files of the tree, leave the text."""

    def as_seen_from_docs(link: re.Match[str]) -> str:
        text, name, anchor = link[1], link[2].removeprefix("../"), link[3] or ""
        if name in PAGES:
            return f"[{text}]({PAGES[name]}{anchor})"
        if link[2].startswith("../") or name.endswith((".ipynb", "LICENSE")):
            return text
        return link[0]

    return _LINK.sub(as_seen_from_docs, markdown)
