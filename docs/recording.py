"""Records README's first commands in a terminal and draws the recording as an animated SVG.

``python -m docs.recording`` runs the commands in an empty directory, on an otherwise idle machine.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

PICTURE = Path(__file__).parent / "images" / "terminal.svg"
COMMANDS = (
    "transformer-cli init --from toy",
    "transformer-cli train configs/toy.yaml",
    "echo 'Ein kleiner Hund schläft vor dem roten Haus.' | transformer-cli translate runs/toy",
)
COLUMNS, ROWS = 92, 16
PROMPT = "$ "
KEY_SECONDS = 0.04
LONGEST_WAIT = 0.5
"""Longer waits for output are cut to this many seconds."""
PLAYED_SECONDS = 9.0
"""A command that takes longer is played in this time."""
FRAME_SECONDS = 0.25
LAST_SECONDS = 5.0
"""How long the last frame stays before the recording starts again."""

CELL, LINE, MARGIN = 8.43, 20, 16
"""Width and height of a character, and the space around the text, in pixels."""

_STYLE = """\
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
       white-space: pre; fill: #1f2328 }
rect { fill: #f6f8fa; stroke: #d1d9e0 }
.prompt { fill: #1a7f37; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  rect { fill: #161b22; stroke: #30363d }
  .prompt { fill: #3fb950 }
}
"""


@dataclass(frozen=True)
class Frame:
    """What the terminal shows from a moment of the recording on."""

    second: float
    rows: tuple[str, ...]


def record(commands: Sequence[str], directory: Path) -> list[Frame]:
    """Type and run shell commands one after another; return the frames of the terminal."""
    import pyte

    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    frames: list[Frame] = []
    now = 0.0

    def show(content: bytes, at: float) -> None:
        stream.feed(content)
        rows = tuple(row.rstrip() for row in screen.display)
        if frames and at - frames[-1].second < FRAME_SECONDS:
            frames[-1] = Frame(frames[-1].second, rows)
        elif not frames or rows != frames[-1].rows:
            frames.append(Frame(at, rows))

    for command in commands:
        show(PROMPT.encode(), now)
        for key in command:
            now += KEY_SECONDS
            show(key.encode(), now)
        show(b"\r\n", now)
        output = list(_run(command, directory))
        speed = max(1.0, output[-1][0] / PLAYED_SECONDS) if output else 1.0
        last = 0.0
        for second, content in output:
            now += min(second - last, LONGEST_WAIT * speed) / speed
            last = second
            show(content, now)
    frames.append(Frame(now + LAST_SECONDS, frames[-1].rows))
    return frames


def _run(command: str, directory: Path) -> Iterator[tuple[float, bytes]]:
    """Run a shell command in a terminal; yield what it writes and the seconds since its start.

    Raises:
        CalledProcessError: it failed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    start = time.monotonic()
    with subprocess.Popen(
        ["sh", "-c", command],
        cwd=directory,
        env={**os.environ, "PATH": path, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        while content := _read(ours):
            yield time.monotonic() - start, content
    os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how Linux says that the other end is closed
        return b""


def draw(frames: Sequence[Frame]) -> str:
    """Return the frames as an SVG, which plays them again and again.

    Where nothing is animated, or the reader's system asks for less motion, the last frame is shown.
    """
    *shown, end = frames
    width, height = round(COLUMNS * CELL) + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
    rules = [_STYLE, "@media (prefers-reduced-motion: no-preference) {\n"]
    groups = []
    for number, frame in enumerate(shown):
        until = frames[number + 1].second
        first, past = (100 * second / end.second for second in (frame.second, until))
        is_last = number == len(shown) - 1
        after = "" if is_last else f"{past:.2f}%,100%{{visibility:hidden}}"
        before = f"0%{{visibility:hidden}}{first:.2f}%{{visibility:visible}}"
        rules.append(f"@keyframes f{number}{{{before}{after}}}\n")
        rules.append(f"#f{number}{{animation:f{number} {end.second:.2f}s step-end infinite}}\n")
        hidden = "" if is_last else ' visibility="hidden"'
        groups.append(f'<g id="f{number}"{hidden}>\n{_draw_rows(frame.rows)}</g>\n')
    rules.append("}\n")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        'aria-label="A terminal: init writes a sample, train trains on it, translate translates">\n'
        f"<style>\n{''.join(rules)}</style>\n"
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        f"{''.join(groups)}</svg>\n"
    )


def _draw_rows(rows: Sequence[str]) -> str:
    lines = []
    for number, row in enumerate(rows):
        if not row:
            continue
        y = MARGIN + number * LINE + 15
        text = escape(row, quote=False)
        if row.startswith(PROMPT.rstrip()):
            sign = PROMPT.rstrip()
            text = f'<tspan class="prompt">{sign}</tspan>{text.removeprefix(sign)}'
        length = f'textLength="{len(row) * CELL:.0f}" lengthAdjust="spacingAndGlyphs"'
        lines.append(f'<text x="{MARGIN}" y="{y}" {length} xml:space="preserve">{text}</text>\n')
    return "".join(lines)


def main() -> None:
    """Record the commands and write the picture."""
    with tempfile.TemporaryDirectory() as directory:
        PICTURE.write_text(draw(record(COMMANDS, Path(directory))), encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    main()
