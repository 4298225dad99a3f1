"""The training loop, as a generator of optimizer steps. It prints nothing and owns no files."""

import copy
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_cli.base.errors import ConfigError, TrainingError
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.config.schema import Config
from transformer_cli.data.batches import Augmentation, Batch, EpochBatches, ShardedText, prefetch
from transformer_cli.model.device import sum_dtype
from transformer_cli.model.transformer import Transformer
from transformer_cli.runs.checkpoint import State
from transformer_cli.training.execution import Execution
from transformer_cli.training.loss import GradientAccumulator, Losses
from transformer_cli.training.optimizer import Optimizer, last_step, learning_rate


@dataclass(frozen=True)
class StepResult:
    """Result of one optimizer step. Losses stay on the device until they are read."""

    step: int  # counted from 1
    epoch: int  # epochs completed when the step was done
    learning_rate: float
    losses: Losses  # summed over this rank's target tokens
    tgt_tokens: int  # this rank's
    ends_epoch: bool
    is_finite: Bool[Tensor, ""]
    """Whether its loss and gradient were; otherwise the losses are zero and nothing was updated."""
    gradient_norm: Float[Tensor, ""]  # before clipping
    skipped: Sequence[int]
    """Steps that are known by now to have been skipped, as they were not finite."""
    micro_batches: int  # number of parts that each batch was split into to fit into memory
    stop: bool  # whether a rank was asked to stop before the step


class _Report(NamedTuple):
    """What ``Optimizer.step`` has returned, on its way to the host."""

    step: int
    where: str  # the step and its batches, for a message
    tgt_tokens: int
    results: Float[Tensor, "5"]
    copied: torch.cuda.Event | None


class Trainer:
    """Trains a model, one optimizer step at a time.

    Batches and dropout are functions of the seed, step, epoch and batch index, so that a resumed
    run equals an uninterrupted one. A step on two ranks equals one with twice the gradient
    accumulation on one rank.
    """

    def __init__(
        self,
        model: Transformer,
        pairs: ShardedText,
        config: Config,
        precision: torch.dtype,
        augmentation: Augmentation | None = None,
        ranks: Ranks = SINGLE_PROCESS,
        use_graphs: bool = True,
    ) -> None:
        model.freeze(config.training.freeze)
        self.model = model
        self.ranks = ranks
        self.precision = precision
        self._arguments = (pairs, config, precision, augmentation)
        self.device = next(model.parameters()).device
        self._execution = Execution.choose(self.device, precision, ranks, use_graphs)
        # The model that is validated and saved: an average of the weights, if there is one.
        has_average = config.training.has_average
        self.eval_model = copy.deepcopy(model).requires_grad_(False) if has_average else model
        self.config = config.training
        self.d_model = config.model.d_model
        self.optimizer = Optimizer(model, self.eval_model, self.config, ranks, self._execution)
        self._gradients = GradientAccumulator(
            model, self.config, precision, config.seed, ranks, self._execution
        )
        # A GPU's host reads reports some steps later, so that it does not wait for them.
        self._reports: deque[_Report] = deque()
        self._newly_skipped: list[int] = []
        self.step = self.epoch = self.batch = self.skipped = 0
        self.window = torch.zeros(3, dtype=sum_dtype(self.device), device=self.device)
        """Both losses and the target tokens, summed over the steps since the last record."""
        self.epochs = EpochBatches(pairs, self.config.batch_tokens, config.seed, augmentation)
        # Only the batches of a text in one shard, as it is, have the same shapes in each epoch.
        is_text_as_it_is = pairs.num_shards == 1 and augmentation is None
        self._rounds_up = self._execution.graphs and not is_text_as_it_is
        self.batches_per_step = self.config.accumulate * ranks.size
        self.steps_per_epoch = -(-len(self.epochs) // self.batches_per_step)
        self.total_steps = last_step(self.config, self.steps_per_epoch)
        self._batches = prefetch(self._iter_batches(), self._execution.prefetch)

    def steps(self, should_stop: Callable[[], bool] = lambda: False) -> Iterator[StepResult]:
        """Train to the end, yielding the result of each optimizer step, which is in ``window``.

        If any rank's ``should_stop``, called once per step, returns true, ``StepResult.stop`` is
        set; ending the loop is up to the caller. A TrainingError is raised if a loss or a gradient
        is not finite, and no more steps may be skipped; the weights are those before the step. On
        a GPU that is noticed some steps later.
        """
        while self.step < self.total_steps:
            first, last = self.batch + 1, min(self.batch + self.batches_per_step, len(self.epochs))
            places = f"batch {last}" if first == last else f"batches {first} to {last}"
            where = f"step {self.step + 1} (epoch {self.epoch + 1}, {places})"
            own = range(first + self.ranks.rank, last + 1, self.ranks.size)
            batches = list(islice(self._batches, len(own)))
            self.step += 1
            self.batch += self.batches_per_step
            ends_epoch = self.batch >= len(self.epochs)
            if ends_epoch:
                self.epoch, self.batch = self.epoch + 1, 0
            result = self._update(batches, where, ends_epoch, should_stop)
            tgt_tokens = result.tgt_tokens * result.is_finite
            self.window += torch.stack((*result.losses, tgt_tokens))
            yield result

    def copy_for_trial(self) -> "Trainer":
        """Return a trainer of one process with a copy of the weights, for trial steps."""
        # Without graphs: captures would be timed.
        trial = Trainer(copy.deepcopy(self.model), *self._arguments, use_graphs=False)
        trial.step = 1  # schedules are defined from step 1
        return trial

    def try_step(self, batches: list[Batch]) -> None:
        """Update the weights with ``batches``; step, epoch and batch index stay."""
        self._update(batches, "trial step", False, lambda: False)
        self._read_reports(read_all=True)

    @property
    def micro_batches(self) -> int:
        """The parts that each batch is split into, so that it fits into memory."""
        return self._gradients.micro_batches

    def state(self) -> dict[str, Any]:
        """Return the training state without weights and optimizer state."""
        self._read_reports(read_all=True)
        return {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "skipped": self.skipped,
            "batches_per_step": self.batches_per_step,
            "micro_batches": self.micro_batches,
            "window": self.window.tolist(),
        }

    def restore(self, state: State, optimizer_state: dict[str, Tensor]) -> None:
        """Restore ``state`` and the optimizer's; the caller loads ``eval_model``."""
        recorded, ranks = state.batches_per_step, self.ranks.size
        if recorded != self.batches_per_step:
            advice = (
                f"set training.accumulate={recorded // ranks}"
                if recorded % ranks == 0
                else f"start a number of processes that divides {recorded}"
            )
            raise ConfigError(
                f"training.accumulate: {self.config.accumulate} batches x {ranks} process(es) = "
                f"{self.batches_per_step} per step, but the checkpoint was trained with "
                f"{recorded}; {advice}"
            )
        if state.step < self.total_steps and state.skipped > self.config.skip_nonfinite:
            raise ConfigError(
                f"training.skip_nonfinite: {self.config.skip_nonfinite}, but steps skipped "
                f"so far: {state.skipped}; resume with at least {state.skipped}"
            )
        self.step, self.epoch, self.batch = state.step, state.epoch, state.batch
        self.skipped = state.skipped
        if self.ranks.is_main:  # already summed over ranks: others start from zero
            self.window.copy_(self.window.new_tensor(state.window))
        self.optimizer.load_state(optimizer_state, self.step - self.skipped, self.skipped)
        # Splitting a batch changes dropout's draws.
        self._gradients.micro_batches = state.micro_batches
        self._batches = prefetch(self._iter_batches(), self._execution.prefetch)

    def _iter_batches(self) -> Iterator[Batch]:
        """Iterate over this rank's batches from here to the end of the training."""
        first = self.batch
        for epoch in range(self.epoch, -(-self.total_steps // self.steps_per_epoch)):
            for batch in self.epochs.iter_epoch(epoch, first + self.ranks.rank, self.ranks.size):
                rounded = batch.round_up() if self._rounds_up else batch
                yield rounded.pin_memory() if self._execution.pin_memory else rounded
            first = 0

    def _update(
        self, batches: list[Batch], where: str, ends_epoch: bool, should_stop: Callable[[], bool]
    ) -> StepResult:
        own_tokens = sum(batch.tgt_tokens for batch in batches)
        tgt_tokens, stop = float(own_tokens), float(should_stop())
        if self.ranks.size > 1:
            tgt_tokens, stop = self.ranks.sum([tgt_tokens, stop])
        self.model.train()
        self.optimizer.prepare()
        losses = self._gradients.accumulate(self.step, batches, int(tgt_tokens))
        rate = learning_rate(self.config.schedule, self.d_model, self.step, self.total_steps)
        results = self.optimizer.step(losses, self.step, rate)
        loss, nll_loss, is_skipped, _, norm = results.unbind()
        self._reports.append(_Report(self.step, where, int(tgt_tokens), *_copy_to_host(results)))
        self._read_reports(read_all=self.step >= self.total_steps)
        skipped, self._newly_skipped = self._newly_skipped, []
        return StepResult(
            step=self.step,
            epoch=self.epoch,
            learning_rate=rate,
            losses=Losses(loss, nll_loss),
            tgt_tokens=own_tokens,
            ends_epoch=ends_epoch,
            is_finite=is_skipped == 0,
            skipped=skipped,
            micro_batches=self.micro_batches,
            gradient_norm=norm,
            stop=bool(stop),
        )

    def _read_reports(self, read_all: bool) -> None:
        """Note which steps were skipped; raise a ``TrainingError`` if more were than may be."""
        while len(self._reports) > (0 if read_all else self._execution.read_delay):
            report = self._reports.popleft()
            if report.copied is not None:
                report.copied.synchronize()
            _, _, is_skipped, loss, norm = report.results.tolist()
            if not is_skipped:
                continue
            if self.skipped >= self.config.skip_nonfinite:
                raise TrainingError(
                    f"{report.where}: the loss is {loss / report.tgt_tokens:.4g} and the "
                    f"gradient's norm {norm:.4g}; lower the learning rate (training.schedule) and "
                    "start again with --overwrite, or skip such steps: "
                    f"--set training.skip_nonfinite={self.skipped + 10}"
                )
            self.skipped += 1
            self._newly_skipped.append(report.step)


def _copy_to_host(values: Tensor) -> tuple[Tensor, torch.cuda.Event | None]:
    """Start to copy ``values`` to the host; return them, and what tells that they are there."""
    on_gpu = values.device.type == "cuda"
    on_host = torch.empty_like(values, device="cpu", pin_memory=on_gpu)
    on_host.copy_(values, non_blocking=on_gpu)
    if not on_gpu:
        return on_host, None
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record()
    return on_host, copied
