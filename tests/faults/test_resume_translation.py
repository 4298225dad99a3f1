"""A translation of a file that is ended by anything goes on to the same bytes."""

import fcntl
import os
import random
import resource
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import PATIENCE, Finished, assert_refused, run, signal_at, start
from installed import has_engine

from transformer_cli.base.errors import OutputError
from transformer_cli.inference import output

OUTPUT = "transformer_cli.inference.output"
TRANSLATOR = "transformer_cli.inference.translator:TextTranslator"
CHUNK = 4
# Three chunks, the last one not full.
LINES = ["1 2 3 4", "", "4 3 2", "5", "6 1 1 2", "2 2", "", "3 4 5 6", "1", "6 6"]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


def in_small_chunks() -> None:
    from transformer_cli.inference import translator

    translator.CHUNK_LINES = CHUNK


def in_chunks_of_500(most_bytes: int = resource.RLIM_INFINITY) -> None:
    from transformer_cli.inference import translator

    translator.CHUNK_LINES = 500
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))


def killed_at(where: str, attribute: str, call: int, number: int = signal.SIGKILL) -> None:
    in_small_chunks()
    signal_at(where, attribute, call, number)


def translate(
    training: Training, directory: Path, *options: str | Path, before: object = in_small_chunks
) -> Finished:
    return run(
        "translate",
        training.run,
        "-i",
        directory / "in.txt",
        "-o",
        directory / "out.txt",
        *options,
        before=before,  # type: ignore[arg-type]
    )


def interrupt(training: Training, directory: Path, *options: str, chunks: int = 1) -> None:
    """Leave a translation of which some chunks are done."""
    kill = partial(killed_at, TRANSLATOR, "translate_encoded", chunks + 1)
    assert translate(training, directory, *options, before=kill).code == -signal.SIGKILL
    left = [f"out.txt.partial{end}" for end in ("", ".json")]
    assert names(directory) == ["in.txt", *left]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture(scope="module")
def expected(training: Training, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    directory = tmp_path_factory.mktemp("expected")
    (directory / "in.txt").write_bytes(TEXT)
    finished = translate(training, directory)
    assert (finished.code, finished.out, finished.err) == (0, "", "")
    assert names(directory) == ["in.txt", "out.txt"]
    data = (directory / "out.txt").read_bytes()
    assert data.count(b"\n") == len(LINES)
    return data


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_bytes(TEXT)
    return tmp_path


# --- going on -------------------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("where", "attribute", "call"),
    [
        (TRANSLATOR, "translate_encoded", 1),
        (TRANSLATOR, "translate_encoded", 3),
        (f"{OUTPUT}:_ResumableOutput", "_write_journal", 1),
        (f"{OUTPUT}:Output", "commit", 2),
        (f"{OUTPUT}:os", "fsync", 2),
        (OUTPUT, "sync", 3),  # the first chunk's journal is written, and not yet in its place
        (OUTPUT, "sync", 4),
        (f"{OUTPUT}:Output", "commit", 3),
        (OUTPUT, "_remove_journal", 1),  # the file has its name already
    ],
)
def test_what_was_killed_anywhere_goes_on_to_the_same_bytes(
    training: Training, here: Path, expected: bytes, where: str, attribute: str, call: int
) -> None:
    older = "" if attribute == "_remove_journal" else "older\n"
    (here / "out.txt").write_text("older\n")
    killed = translate(training, here, before=partial(killed_at, where, attribute, call))
    assert killed.code == -signal.SIGKILL
    if older:
        assert (here / "out.txt").read_text() == older
    finished = translate(training, here)
    assert (finished.code, finished.err) == (0, "")
    assert (here / "out.txt").read_bytes() == expected
    assert names(here) == ["in.txt", "out.txt"]


def test_chunks_that_are_done_are_not_done_again(
    training: Training, here: Path, expected: bytes
) -> None:
    interrupt(training, here, chunks=2)
    # The rest is one call; a second one would be the end of it.
    finished = translate(
        training, here, before=partial(killed_at, TRANSLATOR, "translate_encoded", 2)
    )
    assert finished.code == 0
    assert (here / "out.txt").read_bytes() == expected


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_says_how_to_go_on(
    training: Training, here: Path, expected: bytes, number: int, code: int
) -> None:
    (here / "out.txt").write_text("older\n")
    end = partial(killed_at, TRANSLATOR, "translate_encoded", 3, number)
    stopped = translate(training, here, before=end)
    assert stopped.code == code
    assert stopped.err.strip() == "8 lines are kept; run the same command again to resume"
    assert (here / "out.txt").read_text() == "older\n"
    finished = translate(training, here)
    assert (finished.code, finished.err) == (0, "")
    assert (here / "out.txt").read_bytes() == expected


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_of_two_thousand_lines_a_signal_keeps_what_is_finished(
    training: Training, here: Path, number: int, code: int
) -> None:
    (here / "in.txt").write_bytes(TEXT * 200)
    assert translate(training, here, before=None).code == 0
    whole = (here / "out.txt").read_bytes()
    (here / "out.txt").unlink()
    end = partial(signal_at, TRANSLATOR, "translate_encoded", 2, number)
    stopped = translate(training, here, before=end)
    assert stopped.code == code
    kept = (here / "out.txt.partial").read_bytes()
    lines = kept.count(b"\n")
    assert stopped.err.strip() == f"{lines:,} lines are kept; run the same command again to resume"
    assert 0 < lines < 2000
    assert whole.startswith(kept)
    assert translate(training, here, before=None).code == 0
    assert (here / "out.txt").read_bytes() == whole


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_first_chunk_leaves_nothing(
    training: Training, here: Path, number: int
) -> None:
    end = partial(killed_at, TRANSLATOR, "translate_encoded", 1, number)
    assert translate(training, here, before=end).code == 128 + number
    assert names(here) == ["in.txt"]


def test_an_error_midway_keeps_what_is_done(
    training: Training, here: Path, expected: bytes
) -> None:
    lines = TEXT.splitlines(keepends=True)
    (here / "in.txt").write_bytes(b"".join(lines[:6]) + b"\xff\n" + b"".join(lines[7:]))
    refused = translate(training, here)
    assert_refused(
        refused, 1, "in.txt:7: not UTF-8", "; 4 lines are kept; run the same command again"
    )
    assert "out.txt" not in names(here)
    (here / "in.txt").write_bytes(TEXT)
    finished = translate(training, here)
    assert (finished.code, finished.err) == (0, "")
    assert (here / "out.txt").read_bytes() == expected


def test_a_full_disk_keeps_what_is_done(training: Training, here: Path) -> None:
    (here / "in.txt").write_bytes(b"\n" * 1600)
    refused = translate(training, here, before=partial(in_chunks_of_500, 1200))
    assert_refused(refused, 1, "out.txt.partial: cannot be written: File too large", "1,000 lines")
    assert "starting again" not in translate(training, here, before=in_chunks_of_500).err
    assert (here / "out.txt").read_bytes() == b"\n" * 1600
    assert names(here) == ["in.txt", "out.txt"]


@pytest.mark.long
def test_what_is_killed_again_and_again_at_random_times_comes_out_the_same(
    training: Training, tmp_path: Path
) -> None:
    draws = random.Random(1)
    words = [str(number) for number in range(1, 7)]
    (tmp_path / "in.txt").write_text(
        "".join(f"{' '.join(draws.choices(words, k=1 + n % 7))}\n" for n in range(60_000))
    )
    command: list[str | Path] = [
        "translate",
        training.run,
        "-i",
        tmp_path / "in.txt",
        "-o",
        tmp_path / "out.txt",
    ]
    started = time.monotonic()
    assert start(*command).wait(PATIENCE) == 0
    seconds = time.monotonic() - started
    whole = (tmp_path / "out.txt").read_bytes()
    (tmp_path / "out.txt").unlink()
    kills = 0
    while not (tmp_path / "out.txt").exists():
        process = start(*command)
        try:
            # Later and later, or a slow machine would never come to an end.
            process.wait(draws.uniform(0.0, seconds * (0.5 + 0.1 * kills)))
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        assert process.wait(PATIENCE) in (0, -signal.SIGKILL)
    assert kills > 0
    assert (tmp_path / "out.txt").read_bytes() == whole
    start(*command).wait(PATIENCE)
    assert names(tmp_path) == ["in.txt", "out.txt"]


# --- what does not fit ----------------------------------------------------------------------------


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("options", "difference"),
    [
        (["--beam-size", "2"], "beam_size was 1, now 2"),
        (["--max-length", "3"], "max_length was None, now 3"),
        (["--errors", "replace"], "errors was strict, now replace"),
        (["--precision", "bfloat16"], "precision was float32, now bfloat16"),
        (["--checkpoint", "{run}/checkpoints/step-00000050"], "checkpoint was "),
    ],
)
def test_with_other_settings_it_starts_anew(
    training: Training, here: Path, options: list[str], difference: str
) -> None:
    asked = [option.format(run=training.run) for option in options]
    assert translate(training, here, *asked).code == 0
    whole = (here / "out.txt").read_bytes()
    (here / "out.txt").unlink()
    interrupt(training, here)
    finished = translate(training, here, *asked)
    assert finished.code == 0
    assert f"out.txt.partial: {difference}" in finished.err
    assert "; starting again" in finished.err
    assert (here / "out.txt").read_bytes() == whole


def with_versions(program: str, library: str) -> None:
    import importlib.metadata

    from transformer_cli.inference import translator

    translator.__version__ = program  # type: ignore[attr-defined]
    importlib.metadata.version = lambda name: f"{name} {library}"  # type: ignore[assignment]


def killed_with_first_versions() -> None:
    with_versions("1.0.0", "1")
    killed_at(f"{OUTPUT}:Output", "commit", 2)


@pytest.mark.parametrize(
    ("versions", "difference"),
    [
        (("9.9.9", "1"), "transformer-cli was 1.0.0, now 9.9.9"),
        (("1.0.0", "2"), "torch was torch 1, now torch 2"),
        (("1.0.0", "2"), "ctranslate2 was ctranslate2"),
    ],
    ids=["ours", "torch", "CTranslate2"],
)
def test_with_another_version_it_starts_over(
    training: Training, here: Path, versions: tuple[str, str], difference: str
) -> None:
    if "ctranslate2" in difference and not has_engine("ctranslate2"):
        pytest.skip("CTranslate2's engine is not installed")
    engine = ["--engine", "ctranslate2" if "ctranslate2" in difference else "torch"]
    begun = translate(training, here, *engine, before=killed_with_first_versions)
    assert begun.code == -signal.SIGKILL
    again = translate(training, here, *engine, before=partial(with_versions, *versions))
    assert again.code == 0
    assert f"out.txt.partial: {difference}" in again.err


def test_other_batches_are_no_other_settings(
    training: Training, here: Path, expected: bytes
) -> None:
    interrupt(training, here)
    finished = translate(training, here, "--batch-tokens", "9")
    assert (finished.code, finished.err) == (0, "")
    assert (here / "out.txt").read_bytes() == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TEXT.replace(b"4 3 2\n", b"4 3 1\n"), "the first 4 lines of the input have changed"),
        (b"1 2 3 4\n\n4 3 2\n", "4 lines are done, but the input has 3"),
    ],
)
def test_with_another_text_it_starts_anew(
    training: Training, here: Path, text: bytes, found: str
) -> None:
    interrupt(training, here)
    (here / "in.txt").write_bytes(text)
    finished = translate(training, here)
    assert finished.code == 0
    assert finished.err.strip() == f"{here / 'out.txt.partial'}: {found}; starting again"
    assert (here / "out.txt").read_bytes().count(b"\n") == text.count(b"\n")
    assert names(here) == ["in.txt", "out.txt"]


@pytest.mark.parametrize("damage", ["altered", "cut off", "journal cut off"])
def test_a_damaged_part_is_translated_again(
    training: Training, here: Path, expected: bytes, damage: str
) -> None:
    interrupt(training, here)
    part, journal = here / "out.txt.partial", here / "out.txt.partial.json"
    if damage == "altered":
        part.write_bytes(b"9" + part.read_bytes()[1:])
    elif damage == "cut off":
        part.write_bytes(part.read_bytes()[:-1])
    else:
        journal.write_bytes(journal.read_bytes()[:-9])
    finished = translate(training, here)
    assert finished.code == 0
    assert "starting again" in finished.err
    assert (here / "out.txt").read_bytes() == expected


@pytest.mark.parametrize("absurd", ["-1", "1e999", str(1 << 70), '"9"', "null"])
def test_absurd_journals_are_not_trusted(training: Training, here: Path, absurd: str) -> None:
    interrupt(training, here)
    journal = here / "out.txt.partial.json"
    journal.write_text(journal.read_text().replace('"lines": 4', f'"lines": {absurd}'))
    assert "partial.json cannot be read; starting again" in translate(training, here).err
    assert names(here) == ["in.txt", "out.txt"]


# --- others' files --------------------------------------------------------------------------------


def test_of_two_writers_the_second_is_refused(
    training: Training, here: Path, expected: bytes
) -> None:
    os.mkfifo(here / "pipe")
    command = ("translate", training.run, "-i", here / "pipe", "-o", here / "out.txt")
    with ThreadPoolExecutor() as executor:
        first = executor.submit(run, *command, cwd=here)
        with (here / "pipe").open("wb") as pipe:
            deadline = time.monotonic() + PATIENCE
            while not (here / "out.txt.partial.json").exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            refused = translate(training, here)
            assert_refused(refused, 1, "out.txt: another process is writing it")
            pipe.write(TEXT)
        assert first.result().code == 0
    assert (here / "out.txt").read_bytes() == expected
    assert names(here) == ["in.txt", "out.txt", "pipe"]


def test_a_lock_left_by_a_killed_process_is_no_obstacle(training: Training, here: Path) -> None:
    child = os.fork()
    if not child:
        (here / "out.txt.partial.json").touch()
        file = (here / "out.txt.partial").open("wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert translate(training, here).code == 0


def test_a_file_that_is_in_the_way_stays(training: Training, here: Path) -> None:
    name = "out.txt.partial"
    (here / name).write_text("a person's own\n")
    refused = translate(training, here)
    assert_refused(refused, 1, f"{name}: in the way")
    assert (here / name).read_text() == "a person's own\n"


def test_a_link_in_the_way_is_not_followed(training: Training, here: Path) -> None:
    name = "out.txt.partial"
    (here / "outside.txt").write_text("a person's own\n")
    (here / name).symlink_to(here / "outside.txt")
    refused = translate(training, here)
    assert_refused(refused, 1, f"{name}: cannot be written")
    assert (here / "outside.txt").read_text() == "a person's own\n"


def test_what_a_link_points_to_is_replaced(training: Training, here: Path, expected: bytes) -> None:
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "real.txt").write_text("older\n")
    (here / "out.txt").symlink_to(here / "elsewhere" / "real.txt")
    assert translate(training, here).code == 0
    assert (here / "out.txt").is_symlink()
    assert (here / "elsewhere" / "real.txt").read_bytes() == expected
    assert names(here / "elsewhere") == ["real.txt"]


def test_no_other_process_gets_the_file_before_it_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = []
    replace = Path.replace

    def try_to_open_first(path: Path, target: Path) -> Path:
        if path.name == "out.partial":
            moved.append(path)
            with pytest.raises(OutputError, match="another process is writing it"):
                output._open_partial(path, target)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", try_to_open_first)
    with output.output_file(tmp_path / "out", {}, iter(["a"])) as file:
        file.write(["a"], ["b"])
    assert moved
    assert (tmp_path / "out").read_text() == "b\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
