"""Work side by side: results in order, errors as they are, torch's threads as they were."""

import threading
from collections.abc import Callable, Iterator

import pytest
import torch

from transformer_cli.inference.search import map_on_cores

CPU = torch.device("cpu")
GPU = torch.device("cuda")  # a name: nothing is computed there


@pytest.fixture(autouse=True)
def threads() -> Iterator[Callable[[int], None]]:
    """Sets torch's number of threads, for one test; two unless it says otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield torch.set_num_threads
    torch.set_num_threads(before)


class OfAPieceError(Exception):
    pass


@pytest.mark.parametrize("number", [1, 2, 3, 16])
@pytest.mark.parametrize("items", [0, 1, 2, 50])
def test_results_come_in_order(items: int, number: int, threads: Callable[[int], None]) -> None:
    threads(number)
    found = map_on_cores(lambda item: item * item, range(items), CPU)
    assert list(found) == [item * item for item in range(items)]
    assert torch.get_num_threads() == number


def test_two_pieces_are_worked_on_at_once_and_the_second_may_be_done_first() -> None:
    second_is_done = threading.Event()

    def wait(item: int) -> int:
        if item == 0:
            assert second_is_done.wait(timeout=60)
        else:
            second_is_done.set()
        return item

    assert list(map_on_cores(wait, range(2), CPU)) == [0, 1]


@pytest.mark.parametrize(
    ("number", "items", "device"), [(1, 9, CPU), (2, 1, CPU), (2, 9, GPU)], ids=str
)
def test_what_one_worker_does_is_done_by_the_caller(
    number: int, items: int, device: torch.device, threads: Callable[[int], None]
) -> None:
    threads(number)
    found = map_on_cores(lambda _: threading.current_thread(), range(items), device)
    assert set(found) == {threading.current_thread()}


@pytest.mark.parametrize(
    ("number", "items", "of_each"), [(2, 9, 1), (3, 2, 3), (4, 2, 2), (8, 9, 2), (9, 9, 3)]
)
def test_workers_share_the_threads(
    number: int, items: int, of_each: int, threads: Callable[[int], None]
) -> None:
    threads(number)
    found = map_on_cores(lambda _: torch.get_num_threads(), range(items), CPU)
    assert set(found) == {of_each}
    assert torch.get_num_threads() == number


@pytest.mark.parametrize("number", [1, 2])
def test_an_error_of_a_piece_comes_out_as_itself(
    number: int, threads: Callable[[int], None]
) -> None:
    threads(number)
    error = OfAPieceError("of piece 3")
    done: list[int] = []

    def fail(item: int) -> int:
        if item == 3:
            raise error
        return item

    with pytest.raises(OfAPieceError) as raised:
        done.extend(map_on_cores(fail, range(9), CPU))
    assert raised.value is error
    assert done == [0, 1, 2]
    assert torch.get_num_threads() == number


def test_after_an_error_pieces_not_begun_never_begin() -> None:
    begun = []

    def fail(item: int) -> None:
        begun.append(item)
        if item == 0:
            raise OfAPieceError
        threading.Event().wait(0.01)  # all of them would take half a minute

    with pytest.raises(OfAPieceError):
        list(map_on_cores(fail, range(6000), CPU))
    assert len(begun) < 6000


def test_a_caller_that_stops_early_leaves_nothing_running() -> None:
    running = threading.active_count()
    begun, ended = [], []

    def work(item: int) -> int:
        begun.append(item)
        threading.Event().wait(0.01)  # all of them would take half a minute
        ended.append(item)
        return item

    found = map_on_cores(work, range(6000), CPU)
    assert next(found) == 0
    del found
    assert sorted(begun) == sorted(ended)
    assert len(begun) < 6000
    assert threading.active_count() == running
    assert torch.get_num_threads() == 2


def test_threads_that_begin_later_have_as_many_of_torchs_as_the_caller() -> None:
    list(map_on_cores(lambda item: item, range(9), CPU))
    found: list[int] = []
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert found == [2]


def test_a_caller_that_fails_leaves_torchs_threads_as_they_were() -> None:
    def fail() -> None:
        for _ in map_on_cores(lambda item: item, range(9), CPU):
            raise OfAPieceError

    with pytest.raises(OfAPieceError):
        fail()
    assert torch.get_num_threads() == 2
