"""The update of a batch, whole or in parts (micro-batches) that fit into memory, alone or with other processes.

The gradients of the parts add up to those of the batch, so that an update is the same however it is divided, but for
the last digits and the random numbers of dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from relatum.config import TrainingConfig
from relatum.data.batching import make_batches
from relatum.errors import RelatumError
from relatum.extractor.device import is_out_of_memory
from relatum.models.labels import Labels
from relatum.models.losses import joint_loss
from relatum.models.model import Model
from relatum.models.outputs import Outputs
from relatum.training.batches import Batches
from relatum.training.graphed_step import GraphedStep
from relatum.training.optimisation import Optimiser
from relatum.training.processes import Processes


class MicroBatchStep:
    """The update of each batch; if memory runs out, it halves the size of the parts of a batch and tries again."""

    def __init__(
        self,
        model: Model,
        optimiser: Optimiser,
        config: TrainingConfig,
        batches: Batches,
        lengths: Sequence[int],
        step: GraphedStep,
        processes: Processes,
        say: Callable[[str], None],
    ) -> None:
        self._model, self._optimiser, self._config = model, optimiser, config
        self._batches, self._lengths = batches, lengths
        self._step, self._processes, self._say = step, processes, say
        self.part_cells = config.part_cells

    def update(self, batch: list[int], step: int) -> Tensor:
        """Change the weights once; return the batch's loss and the norm of its gradients, on their device."""
        share = self._processes.share(batch)
        if self._processes.n == 1 and len(self._divide(share)) == 1:
            try:
                return self._step.update(*self._batches.make(share), step)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            # Not in the handler: the error holds on to all that the update had made.
            self._make_room([share])
        return self._step.run_eager(lambda: self._add_up(batch, share), step)

    def _add_up(self, batch: list[int], share: list[int]) -> Tensor:
        # As long as no other process waits, an update can be begun again.
        while (loss := self._differentiate(batch, parts := self._divide(share))) is None:
            self._make_room(parts)
        loss = self._processes.add_up(self._optimiser.parameters, loss)
        norm = self._optimiser.apply()
        return torch.stack((loss, norm.detach()))

    def _differentiate(self, batch: list[int], parts: list[list[int]]) -> Tensor | None:
        """Add up the gradients of all parts in the parameters; return the loss of all parts, None if memory ran out."""
        self._optimiser.adam.zero_grad(set_to_none=True)
        n_tags = self._batches.count_tags(batch) if self._config.loss == "mean" else None
        try:
            total = self._optimiser.parameters[0].new_zeros(())
            for part in parts:
                inputs, labels = self._batches.make(part)
                loss = part_loss(self._model.score(inputs), labels, n_tags, self._config)
                loss.backward()
                total = total + loss.detach()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None
        return total

    def _divide(self, share: list[int]) -> list[list[int]]:
        """Divide a share into parts, each as large as the limit allows; a single sentence may still be too large."""
        if not share:
            return []
        lengths = [self._lengths[index] for index in share]
        if self.part_cells is None or _count_cells(lengths) <= self.part_cells:
            return [share]
        parts = make_batches(lengths, len(share), self.part_cells, bucketing=False, rng=None)
        return [[share[place] for place in part] for part in parts]

    def _make_room(self, parts: list[list[int]]) -> None:
        """Compute less at once from now on."""
        self._optimiser.adam.zero_grad(set_to_none=True)
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        if self._step.drop_graphs():
            return
        sizes = [[self._lengths[index] for index in part] for part in parts]
        n_cells = max((_count_cells(lengths) for lengths in sizes if len(lengths) > 1), default=None)
        if n_cells is None:
            longest = max(max(lengths) for lengths in sizes)
            raise RelatumError(
                f"out of memory: a sentence of {longest} words does not fit on the device; lower training.max_cells, "
                "so that long sentences are cut into windows, or model.width, table.width or model.n_layers, or set "
                'training.precision = "bf16" on a GPU'
            )
        self.part_cells = n_cells // 2
        self._say(
            f"out of memory: {n_cells:,} table cells do not fit on the device at once. From now on larger batches are "
            f"computed in parts of at most {self.part_cells:,} cells, whose gradients are added up, so that each "
            f"update stays what it was (--set training.part_cells={self.part_cells} does so from the start)"
        )


def part_loss(outputs: Outputs, labels: Labels, n_tags: tuple[int, int] | None, config: TrainingConfig) -> Tensor:
    """Return the share of a part in the loss of its batch; `n_tags` counts the batch's tags of words and of cells.

    Summed losses need no counts: the losses of the parts add up to the loss of the batch.
    """
    if n_tags is None:
        return joint_loss(outputs, labels, config).total
    loss = joint_loss(outputs, labels, config.model_copy(update={"loss": "sum"}))
    n_words, n_cells = n_tags
    return config.entity_weight * loss.entity / max(n_words, 1) + config.relation_weight * loss.relation / max(
        n_cells, 1
    )


def _count_cells(lengths: Sequence[int]) -> int:
    return len(lengths) * max(lengths) ** 2
