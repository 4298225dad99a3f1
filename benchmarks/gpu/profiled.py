"""What a GPU does in a training step, and how much of the time it does nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.corpus import Corpus, load_corpus
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import BASE_MODEL, SMALL_MODEL, Setting, attempt, model_name, on_off
from benchmarks.gpu.timing import synchronize

_TOP = 10


class Kernel(NamedTuple):
    """A kernel's run, in microseconds."""

    name: str
    start: float
    end: float


def measure(setting: Setting) -> Iterator[Row]:
    """Yield launches, the share of time busy, and the kernels that take the most time."""
    corpus = load_corpus(setting)
    for model, batch_tokens in ((SMALL_MODEL, 2560), (BASE_MODEL, 25_000)):
        for graphs in (False, True):  # a capture that fails may spoil what follows
            label: Row = {"model": model_name(model), "graphs": on_off(graphs)}
            yield from attempt(label, _profile(corpus, model, batch_tokens, graphs))


def _profile(corpus: Corpus, model: str, batch_tokens: int, graphs: bool) -> Iterator[Row]:
    asked = 5
    if corpus.setting.small:
        batch_tokens, asked = 512, 1
    device = corpus.setting.device
    config = corpus.config(model, batch_tokens, 3)
    trainer = corpus.trainer(config, corpus.take(2 * asked, batch_tokens), use_graphs=graphs)
    steps = trainer.steps()
    for step in steps:
        if step.ends_epoch and step.epoch == 2:
            break
    synchronize(device)
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as profiler:
        taken = sum(1 for _ in islice(steps, asked))
        synchronize(device)
    # On a CPU its own operations stand in for kernels.
    computes = device.type.upper()
    events = [event for event in profiler.events() or () if not event.is_user_annotation]
    kernels = [
        Kernel(event.name, event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type.name == computes
    ]
    calls = Counter(event.name for event in events if event.device_type.name == "CPU")
    yield summarize(kernels, calls, taken)
    yield from _longest(kernels)


def summarize(kernels: Sequence[Kernel], calls: Mapping[str, int], steps: int) -> Row:
    """Return the row of so many steps.

    Args:
        kernels: that ran.
        calls: how often the processor called each function.
        steps: that were profiled.
    """
    window = max(each.end for each in kernels) - min(each.start for each in kernels)

    def count(*words: str) -> float:
        of_cuda = {name: n for name, n in calls.items() if name.startswith("cu")}
        return sum(n for name, n in of_cuda.items() if any(each in name for each in words)) / steps

    return {
        "ms a step": window / 1000 / steps,
        "% busy": 100 * busy_time(kernels) / window,
        "kernels a step": len(kernels) / steps,
        "kernel launches a step": count("LaunchKernel"),
        "graph launches": count("GraphLaunch"),
        "copies and fills": count("Memcpy", "Memset"),
        "synchronisations": count("Synchronize"),
    }


def busy_time(kernels: Sequence[Kernel]) -> float:
    """Return the length of the union of all kernels' intervals."""
    total, until = 0.0, float("-inf")
    for kernel in sorted(kernels, key=lambda each: each.start):
        total += max(0.0, kernel.end - max(kernel.start, until))
        until = max(until, kernel.end)
    return total


def _longest(kernels: Sequence[Kernel]) -> Iterator[Row]:
    runs: dict[str, list[float]] = {}
    for kernel in kernels:
        runs.setdefault(kernel.name, []).append(kernel.end - kernel.start)
    total = sum(map(sum, runs.values()))
    for name in sorted(runs, key=lambda each: -sum(runs[each]))[:_TOP]:
        yield {
            "kernel": f"`{name[:90]}`",
            "runs": len(runs[name]),
            "% of kernels' time": 100 * sum(runs[name]) / total,
        }
