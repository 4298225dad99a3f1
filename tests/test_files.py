"""Files and directories appear whole or not at all, whatever happens while they are written."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_cli.base import registry, writing
from transformer_cli.base.errors import MissingExtraError, OutputError, RunError
from transformer_cli.base.files import is_stream, sha256
from transformer_cli.base.text_files import compressor, is_compressed, open_text, write_text
from transformer_cli.base.writing import (
    claim,
    remove_directory,
    remove_leftovers,
    sync,
    temporary_path,
    whole_directory,
    whole_file,
)


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


class CrashError(Exception):
    """Something goes wrong half way."""


def write_half_a_file(path: Path) -> None:
    with whole_file(path) as temporary:
        temporary.write_text("half")
        raise CrashError


def write_half_a_directory(path: Path) -> None:
    with whole_directory(path) as temporary:
        (temporary / "a").write_text("half")
        (temporary / "below").mkdir()
        raise CrashError


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """What was brought to disk, and whether 'final' had its new content by then."""
    calls: list[tuple[str, bool]] = []

    def recording_sync(path: Path) -> None:
        directory = next(parent for parent in [path, *path.parents] if parent.name == "place")
        calls.append((path.name.partition(".partial-")[0], names(directory) == ["final"]))
        sync(path)

    monkeypatch.setattr(writing, "sync", recording_sync)
    return calls


@pytest.mark.parametrize("old", [None, "old"])
def test_a_file_is_not_there_before_it_is_whole(tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "final"
    if old is not None:
        path.write_text(old)
    with whole_file(path) as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path  # a rename to another disk would not be one step
        assert (path.read_text() if path.exists() else None) == old
    assert path.read_text() == "new"
    assert names(tmp_path) == ["final"]


@pytest.mark.parametrize("old", [[], ["final"]])
def test_a_crash_leaves_the_old_file_and_nothing_else(tmp_path: Path, old: list[str]) -> None:
    path = tmp_path / "final"
    for name in old:
        (tmp_path / name).write_text("old")
    with pytest.raises(CrashError):
        write_half_a_file(path)
    assert names(tmp_path) == old
    assert all((tmp_path / name).read_text() == "old" for name in old)


def test_a_file_that_cannot_take_its_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "final" / "below").mkdir(parents=True)
    with pytest.raises(OSError, match="final"):
        write_text(tmp_path / "final", "text")
    assert names(tmp_path) == ["final"]


def test_a_file_in_no_directory_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "nowhere" / "final", "text")


@pytest.mark.posix
def test_a_link_that_is_named_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "target").write_text("old")
    (tmp_path / "final").symlink_to(tmp_path / "elsewhere" / "target")
    with pytest.raises(RunError, match=r"/final: is a link, [^\n]*"):
        write_text(tmp_path / "final", "new")
    assert (tmp_path / "elsewhere" / "target").read_text() == "old"
    with claim(tmp_path / "final"):
        write_text(tmp_path / "final", "new", is_named=True)
    assert (tmp_path / "final").is_symlink()
    assert (tmp_path / "elsewhere" / "target").read_text() == "new"
    assert names(tmp_path) == ["elsewhere", "final"]
    assert names(tmp_path / "elsewhere") == ["target"]


@pytest.mark.posix
def test_a_device_stays_a_device() -> None:
    with pytest.raises(RunError, match="/dev/null: is a pipe or a device"):
        write_text(Path("/dev/null"), "text")
    write_text(Path("/dev/null"), "text", is_named=True)
    assert Path("/dev/null").is_char_device()


@pytest.mark.posix
def test_memory_that_is_a_directory_has_files() -> None:
    assert not is_stream(Path("/dev/shm/x.txt"))
    assert is_stream(Path("/dev/stdout"))
    assert is_stream(Path("/proc/self/fd/1"))


def test_nobody_can_guess_a_temporary_name(tmp_path: Path) -> None:
    assert temporary_path(tmp_path / "final") != temporary_path(tmp_path / "final")


def write_and_swap(path: Path, precious: Path, swap: str) -> None:
    with whole_file(path, is_named=True) as temporary:
        temporary.unlink()
        if swap == "link":
            temporary.symlink_to(precious)
        else:
            os.link(precious, temporary)


@pytest.mark.posix
@pytest.mark.parametrize("swap", ["link", "hard link"])
def test_a_file_that_replaces_the_temporary_one_is_left_as_it_is(tmp_path: Path, swap: str) -> None:
    path, precious = tmp_path / "final", tmp_path / "precious"
    path.write_text("old")
    path.chmod(0o666)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    precious.write_text("precious")
    precious.chmod(0o600)
    before = precious.stat()
    with claim(path), pytest.raises(OutputError, match="was replaced by someone else while it"):
        write_and_swap(path, precious, swap)
    after = precious.stat()
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert after.st_mode == before.st_mode
    assert path.read_text() == "old"


@pytest.mark.posix
def test_a_replaced_file_keeps_permissions_but_no_setuid_bit(tmp_path: Path) -> None:
    path = tmp_path / "final"
    path.write_text("old")
    path.chmod(0o6754)
    with claim(path):
        write_text(path, "new", is_named=True)
    assert path.stat().st_mode & 0o7777 == 0o754


@pytest.mark.posix
def test_a_link_that_is_put_there_meanwhile_gives_no_permissions(tmp_path: Path) -> None:
    path = tmp_path / "final"
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o777)
    with claim(path), whole_file(path, is_named=True):  # as empty as the other
        path.symlink_to("open")
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o111 == 0


@pytest.mark.posix
@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL, errno.ENOSYS])
def test_finished_work_stays_where_permissions_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "final"
    path.write_text("old")
    path.chmod(0o666)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    is_other_group = path.stat().st_gid != os.getegid()

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fchown", fail)
    with claim(path):
        write_text(path, "new", is_named=True)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == (0o606 if is_other_group else 0o666)
    monkeypatch.setattr(os, "fchmod", fail)
    with claim(path):
        write_text(path, "newer", is_named=True)
    assert path.read_text() == "newer"


def test_a_path_may_be_claimed_twice(tmp_path: Path) -> None:
    path = tmp_path / "final"
    path.write_text("old")
    with claim(path, tmp_path / "below" / ".." / "final"):
        with claim(path):
            pass
        write_text(path, "new", is_named=True)
        write_text(path, "newer", is_named=True)
        path.write_text("someone's")
        with pytest.raises(OutputError, match="was changed by someone else"), claim(path):
            write_text(path, "newest", is_named=True)
    assert names(tmp_path) == ["final", "final.new"]
    write_text(path, "newest")


def test_a_claim_leaves_others_files_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "final.partial").touch()
    with claim(tmp_path / "final"):
        pass
    assert names(tmp_path) == ["final.partial"]


def test_a_file_that_a_user_has_named_has_to_be_claimed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="call claim"):
        write_text(tmp_path / "final", "new", is_named=True)


def test_a_file_is_on_disk_before_its_name_is(
    tmp_path: Path, synced: list[tuple[str, bool]]
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    write_text(place / "final", "text")
    assert synced == [("final", False), ("place", True)]


def test_a_directory_is_on_disk_before_its_name_is(
    tmp_path: Path, synced: list[tuple[str, bool]]
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with whole_directory(place / "final") as temporary:
        (temporary / "a").write_text("a")
        (temporary / "b").write_text("b")
    assert sorted(synced[:2]) == [("a", False), ("b", False)]
    assert synced[2:] == [("final", False), ("place", True)]


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    text = "ein Ä\r\n\x85\u2028ohne Ende\n\n"
    write_text(tmp_path / "final", text)
    assert (tmp_path / "final").read_bytes() == text.encode("utf-8")


def test_a_directory_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "final"
    with whole_directory(path) as temporary:
        (temporary / "a").write_text("a")
        assert temporary.parent == tmp_path
        assert not path.exists()
    assert names(tmp_path) == ["final"]
    assert names(path) == ["a"]


def test_a_crash_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(CrashError):
        write_half_a_directory(tmp_path / "final")
    assert names(tmp_path) == []


def test_a_directory_does_not_replace_another(tmp_path: Path) -> None:
    (tmp_path / "final").mkdir()
    (tmp_path / "final" / "old").touch()
    with pytest.raises(OSError, match="final"), whole_directory(tmp_path / "final") as temporary:
        (temporary / "new").touch()
    assert names(tmp_path) == ["final"]
    assert names(tmp_path / "final") == ["old"]


def test_what_a_killed_process_of_the_same_number_left_is_no_hindrance(tmp_path: Path) -> None:
    with whole_directory(tmp_path / "final") as temporary:
        name = temporary.name
    (tmp_path / "final").rmdir()
    (tmp_path / name).mkdir()
    (tmp_path / name / "stale").touch()
    with whole_directory(tmp_path / "final") as temporary:
        (temporary / "new").touch()
    assert names(tmp_path / "final") == ["new"]
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["final"]


def test_a_removed_directory_is_gone(tmp_path: Path) -> None:
    (tmp_path / "final" / "below").mkdir(parents=True)
    (tmp_path / "final" / "below" / "a").touch()
    remove_directory(tmp_path / "final")
    assert names(tmp_path) == []


def test_a_directory_half_removed_is_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "final" / "below").mkdir(parents=True)

    def killed(path: Path) -> None:
        assert names(tmp_path) == [path.name]
        raise CrashError

    with monkeypatch.context() as patches:
        patches.setattr(shutil, "rmtree", killed)
        with pytest.raises(CrashError):
            remove_directory(tmp_path / "final")
    assert not (tmp_path / "final").exists()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == []


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    killed = """
import os, pathlib
from transformer_cli.base.writing import whole_directory, whole_file
with whole_file(pathlib.Path("file")) as file, whole_directory(pathlib.Path("dir")) as directory:
    file.write_text("half")
    (directory / "half").write_text("half")
    os._exit(9)
"""
    done = subprocess.run([sys.executable, "-c", killed], cwd=tmp_path, check=False)
    assert done.returncode == 9
    assert len(names(tmp_path)) == 3
    assert (tmp_path / "file").read_text() == "old"
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["file"]


def test_only_our_leftovers_are_removed(tmp_path: Path) -> None:
    theirs = ["a", "a.partial", "a.partial-", "a.partial-x", "a.partial-12.txt", "partial-12"]
    for name in theirs:
        (tmp_path / name).touch()
    below = tmp_path / "below"
    below.mkdir()
    (below / "a.partial-99999999").touch()
    (tmp_path / "a.partial-99999999").touch()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == sorted([*theirs, "below"])
    assert names(below) == ["a.partial-99999999"]


def test_leftovers_of_what_nobody_else_writes_go_whoever_has_the_number_now(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / f"{name}.partial-{os.getppid()}").touch()
        (tmp_path / f"{name}-of-nobody.partial-99999999").touch()
    (tmp_path / "theirs.partial-99999999@elsewhere").touch()
    (tmp_path / "mine.partial-99999999@elsewhere").touch()
    remove_leftovers(tmp_path, ["mine", "step-*"])
    left = [f"theirs.partial-{os.getppid()}", "theirs.partial-99999999@elsewhere"]
    assert names(tmp_path) == sorted(left)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_an_error_for_want_of_room_names_the_file(tmp_path: Path, number: int) -> None:
    def write() -> None:
        raise OSError(number, "no room")  # as write() gives it: without a name

    with pytest.raises(OSError, match="no room") as caught, whole_file(tmp_path / "file"):
        write()
    assert caught.value.filename == str(tmp_path / "file")
    with pytest.raises(OSError, match="no room") as caught, whole_directory(tmp_path / "directory"):
        write()
    assert caught.value.filename == str(tmp_path / "directory")
    assert names(tmp_path) == []


def test_an_error_below_a_temporary_directory_names_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(OSError, match="no room") as caught,
        whole_directory(Path("outer")) as outer,
        whole_directory(outer / "inner") as inner,
        whole_file(inner / "file"),  # which gives absolute names
    ):
        raise OSError(errno.EFBIG, "no room")
    assert caught.value.filename == "outer"


def test_errors_about_other_files_keep_their_names(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, whole_file(tmp_path / "file"):
        (tmp_path / "source").read_text()
    assert caught.value.filename == str(tmp_path / "source")
    with pytest.raises(BrokenPipeError) as broken, whole_file(tmp_path / "file"):
        raise BrokenPipeError(errno.EPIPE, "nobody reads")
    assert broken.value.filename is None


def test_sha256_is_the_published_one(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")  # FIPS 180-2, appendix B.1
    assert sha256(tmp_path / "abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


def test_compressed_text_without_its_extension_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "entries", lambda interface: {})
    path = tmp_path / "text.gz"
    for use in (open_text, compressor, lambda path: write_text(path, "a")):
        with pytest.raises(MissingExtraError, match=r"\.gz: no such compression is installed; "):
            use(path)
    assert not path.exists()
    assert is_compressed(path)
