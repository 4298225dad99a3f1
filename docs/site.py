"""Builds the documents as a site: ``python -m docs.site`` writes it to .site.

The site has docs/, and README, CONTRIBUTING, CHANGELOG and SECURITY, which lie beside it.
"""

import posixpath
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
SITE = ROOT / ".site"
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)#]*)(#[^)]*)?\)")


def write_source(directory: Path) -> None:
    """Write all pages, with links to one another, and the configuration of the site."""
    pages = directory / "docs"
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("*.py", "*.ipynb", "__*"))
    for source, name in _PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        (pages / name).write_text(text, encoding="utf-8")
    for page in pages.rglob("*.md"):
        folder = page.parent.relative_to(pages).as_posix()
        text = _LINK.sub(partial(_link, pages, folder), page.read_text(encoding="utf-8"))
        page.write_text(text, encoding="utf-8")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    extensions = sorted(f"extensions/{page.name}" for page in pages.glob("extensions/*.md"))
    if extensions:
        config += f"  - Extensions: [{', '.join(extensions)}]\n"
    (directory / "mkdocs.yml").write_text(config, encoding="utf-8")


def _link(pages: Path, folder: str, link: re.Match[str]) -> str:
    """Point a link at one of the pages; leave only the text if it leads to anything else."""
    text, anchor = link[1], link[3] or ""
    path = posixpath.normpath(posixpath.join(folder, link[2]))
    if (made := _PAGES.get(path.removeprefix("../"))) is not None:
        return f"[{text}]({posixpath.relpath(made, folder)}{anchor})"
    if link[2].endswith("/") and (ROOT / "docs" / path / "README.md").is_file():
        return f"[{text}]({posixpath.relpath(f'{path}/README.md', folder)}{anchor})"
    is_in_site = not path.startswith("../") and (pages / path).is_file()
    return link[0] if is_in_site or not link[2] else text


def main() -> None:
    """Build the site; a link that leads nowhere is an error."""
    with TemporaryDirectory() as directory:
        write_source(Path(directory))
        build = [sys.executable, "-m", "zensical", "build", "--strict"]
        if code := subprocess.run(build, cwd=directory).returncode:
            sys.exit(code)
        shutil.rmtree(SITE, ignore_errors=True)
        shutil.copytree(Path(directory, "site"), SITE)


if __name__ == "__main__":
    main()
