"""Continue the masked-language-model training of an encoder on plain text of one's own domain.

The result is an encoder folder like any other. Packages of encoders leave out the output layer that predicted masked
pieces, so a new one is made, tied to the embeddings, and trained alone for the first updates.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu

from relatum.data.atomic import new_folder, replacing_file
from relatum.data.plain_text import read_lines
from relatum.encoders.automodel import load_automodel
from relatum.encoders.hashing import encoder_files, encoder_weights, files_hash
from relatum.encoders.pieces import PieceTokenizer
from relatum.encoders.resolve import find_encoder
from relatum.errors import ConfigError, RelatumError
from relatum.monitor import Monitor
from relatum.training.stopping import Stopping

_WEIGHTS = "model.safetensors"
_STATE, _DESCRIPTION = "state.safetensors", "state.json"
_LINES = 1000
"""The number of lines that are tokenised at once."""
_HEAD_RATE = 1e-3
_CHECKPOINT_SECONDS = 600.0
_HELD_OUT_BLOCKS = 512


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Settings of continued pre-training."""

    epochs: float = 1.0
    batch_size: int = 64
    length: int = 128
    """Pieces of a block of text, special pieces included."""
    learning_rate: float = 1e-4
    masking: float = 0.15
    """The share of pieces to be predicted: 80 % of these are masked, 10 % replaced by chance and 10 % kept."""
    warmup: float = 0.06
    head_only: float = 0.05
    """The share of updates, at the beginning, that train the new output layer alone."""
    seed: int = 0
    half_precision: bool = True

    def __post_init__(self) -> None:
        bounds = {
            "epochs": (self.epochs > 0, "more than 0"),
            "batch_size": (self.batch_size >= 1, "at least 1"),
            "length": (self.length >= 8, "at least 8 pieces"),
            "learning_rate": (0 < self.learning_rate < 1, "between 0 and 1"),
            "masking": (0 < self.masking < 1, "between 0 and 1"),
            "warmup": (0 <= self.warmup < 1, "at least 0 and less than 1"),
            "head_only": (0 <= self.head_only < 1, "at least 0 and less than 1"),
            "seed": (0 <= self.seed < 2**31, "from 0 to 2147483647"),
        }
        for name, (holds, expected) in bounds.items():
            if not holds:
                raise ConfigError(f"{name} is {getattr(self, name)}; expected {expected}")


@dataclass(frozen=True, slots=True)
class AdaptedEncoder:
    """The outcome of an adaptation; a loss is the mean cross entropy of masked pieces of held-out text."""

    folder: Path
    n_pieces: int
    steps: int
    loss_before: float
    """The loss after the new output layer was trained, before the encoder was changed."""
    loss_after: float
    finished: bool = True


class _Head(nn.Module):
    """The output layer for masked pieces: a dense layer, and the encoder's embeddings as the weights of the scores."""

    def __init__(self, embeddings: Tensor) -> None:
        super().__init__()
        n_pieces, width = embeddings.shape
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(n_pieces))
        nn.init.eye_(self.dense.weight)
        nn.init.zeros_(self.dense.bias)

    def forward(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        scores: Tensor = self.norm(gelu(self.dense(hidden))) @ embeddings.T
        return scores + self.bias


def adapt_encoder(
    texts: Sequence[Path],
    encoder: str,
    out: Path,
    settings: Adaptation | None = None,
    device: torch.device | str = "cpu",
    monitor: Monitor | None = None,
) -> AdaptedEncoder:
    """Train an encoder further on text files, one document a line, and write it to a new folder.

    The state is kept in the folder `OUT.partial` every ten minutes and when the run is stopped; the same call goes on
    from there.
    """
    settings = settings or Adaptation()
    monitor = monitor or Monitor()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RelatumError(f"{out} is not an empty folder; name a new folder, or remove it first")
    for path in texts:
        if not path.exists():
            raise RelatumError(f"{path}: no such file or folder; name text files or folders of .txt files")
    folder = find_encoder(encoder)
    tokenizer = PieceTokenizer.load(folder)
    monitor.say(f"cutting the text into pieces of {encoder}")
    blocks = cut_blocks(read_lines(texts), tokenizer, settings.length)
    if len(blocks) < 2:
        raise RelatumError(
            f"{', '.join(map(str, texts))}: found text for {len(blocks)} blocks of {settings.length} pieces; expected "
            "at least 2, and better some thousands"
        )
    run = _Run(folder, tokenizer, blocks, settings, torch.device(device))
    draft = out.with_name(f"{out.name}.partial")
    fingerprint = {"encoder": files_hash(folder), "settings": asdict(settings), "text": _blocks_hash(blocks)}
    if draft.exists():
        run.restore(draft, fingerprint)
        monitor.say(f"going on after update {run.step:,} of {run.steps:,}, kept in {draft}")
    with Stopping() as stopping:
        saved = time.monotonic()
        monitor.start(run.step, run.steps)
        while run.step < run.steps and not stopping.asked:
            loss = run.update()
            if run.step % 20 == 0:
                monitor.advance(run.step, float(loss))
            if time.monotonic() - saved > _CHECKPOINT_SECONDS:
                run.keep(draft, fingerprint)
                saved = time.monotonic()
        monitor.close()
    if run.step < run.steps:
        run.keep(draft, fingerprint)
        return AdaptedEncoder(draft, blocks.size, run.step, run.loss_before, math.nan, finished=False)
    result = AdaptedEncoder(out, int(blocks.size), run.steps, run.loss_before, run.held_out_loss())
    with new_folder(out) as new:
        run.write_encoder(new)
        (new / "README.md").write_text(_card(encoder, texts, settings, result), encoding="utf-8")
    shutil.rmtree(draft, ignore_errors=True)
    return result


def cut_blocks(lines: Iterable[str], tokenizer: PieceTokenizer, length: int) -> NDArray[np.int32]:
    """Pack documents into rows of `length` pieces, special pieces around each row; the last, short row is dropped."""
    prefix, suffix = tokenizer.prefix, tokenizer.suffix
    inside = length - len(prefix) - len(suffix)
    parts: list[NDArray[np.int32]] = []
    source = iter(lines)
    while group := list(islice(source, _LINES)):
        documents = tokenizer.cut_texts([line for line in map(str.strip, group) if line])
        parts += [np.array([*pieces, *suffix[:1]], dtype=np.int32) for pieces in documents]
    pieces = np.concatenate(parts) if parts else np.empty(0, np.int32)
    rows = pieces[: len(pieces) // inside * inside].reshape(-1, inside)
    around = [np.broadcast_to(np.array(side, np.int32), (len(rows), len(side))) for side in (prefix, suffix)]
    return np.concatenate([around[0], rows, around[1]], 1)


class _Run:
    """The state of one adaptation: model, output layer, optimiser and the number of updates made."""

    def __init__(
        self,
        folder: Path,
        tokenizer: PieceTokenizer,
        blocks: NDArray[np.int32],
        settings: Adaptation,
        device: torch.device,
    ) -> None:
        self._folder, self._settings, self._device = folder, settings, device
        backbone = load_automodel(folder, want_attention=False)
        if backbone.n_positions is not None and settings.length > backbone.n_positions:
            raise ConfigError(f"length is {settings.length}; {folder} reads at most {backbone.n_positions} pieces")
        self._model: Any = backbone.model.to(device).requires_grad_(True)
        if isinstance(getattr(self._model, "pooler", None), nn.Module):
            self._model.pooler = None
        self._embeddings: Tensor = self._model.get_input_embeddings().weight
        self._head = _Head(self._embeddings).to(device)
        self._mask = tokenizer.mask
        self._special = torch.tensor(sorted({*tokenizer.prefix, *tokenizer.suffix}), device=device)
        order = np.random.default_rng(settings.seed).permutation(len(blocks))
        n_held_out = max(1, min(_HELD_OUT_BLOCKS, len(blocks) // 50))
        self._held_out = torch.from_numpy(blocks[order[:n_held_out]]).long()
        self._blocks = torch.from_numpy(blocks[order[n_held_out:]])
        self._per_epoch = max(1, len(self._blocks) // settings.batch_size)
        self.steps = max(1, round(settings.epochs * self._per_epoch))
        self._head_steps = round(settings.head_only * self.steps)
        groups = [{"params": list(self._head.parameters())}, {"params": list(self._model.parameters())}]
        self._adam = torch.optim.AdamW(groups, weight_decay=0.01, fused=device.type == "cuda")
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)
        self.step = 0
        self.loss_before = math.nan

    def update(self) -> Tensor:
        """Make one update; return the loss of its batch."""
        if self.step == self._head_steps:
            self.loss_before = self.held_out_loss()
        self.step += 1
        learns_encoder = self.step > self._head_steps
        for group, rate in zip(self._adam.param_groups, self._rates(), strict=True):
            group["lr"] = rate
        self._model.train(learns_encoder)
        seed = self._settings.seed * 1_000_003 + self.step
        with torch.random.fork_rng([self._device] if self._device.type == "cuda" else []):
            torch.manual_seed(seed)  # of dropout, so that a run that was stopped goes on as if it had not been
            loss = self._loss(self._batch(), seed, learns_encoder)
        self._adam.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_([*self._head.parameters(), *self._model.parameters()], 1.0, foreach=True)
        self._adam.step()
        return loss.detach()

    def _rates(self) -> tuple[float, float]:
        """Return the rates of the output layer and of the encoder: a linear rise, then a linear fall to 0."""
        passed, total = self.step - self._head_steps, self.steps - self._head_steps
        if passed <= 0:
            return _HEAD_RATE, 0.0
        warmup = max(1, round(self._settings.warmup * total))
        rate = self._settings.learning_rate * min(passed / warmup, (total + 1 - passed) / max(1, total + 1 - warmup))
        return rate, rate

    def _batch(self) -> Tensor:
        """Take the blocks of this update: every epoch has an order of its own, drawn from the seed."""
        epoch, number = divmod(self.step - 1, self._per_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self._settings.seed * 1_000_003 + epoch)
            self._epoch, self._order = epoch, torch.randperm(len(self._blocks), generator=generator)
        size = self._settings.batch_size
        return self._blocks[self._order[number * size : (number + 1) * size]].long()

    def _loss(self, blocks: Tensor, seed: int, learns_encoder: bool) -> Tensor:
        """Hide pieces, chosen by the seed, and return the mean cross entropy of predicting them."""
        generator = torch.Generator().manual_seed(seed)  # on the CPU, so that devices choose alike
        chance = torch.rand(blocks.shape, generator=generator)
        how = torch.rand(blocks.shape, generator=generator)
        others = torch.randint(len(self._embeddings), blocks.shape, generator=generator)
        blocks, chance, how, others = (one.to(self._device) for one in (blocks, chance, how, others))
        chosen = (chance < self._settings.masking) & ~torch.isin(blocks, self._special)
        inputs = torch.where(chosen & (how < 0.8), self._mask, blocks)
        inputs = torch.where(chosen & (how >= 0.9), others, inputs)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._settings.half_precision):
            with torch.set_grad_enabled(learns_encoder and torch.is_grad_enabled()):
                hidden = self._model(input_ids=inputs, attention_mask=torch.ones_like(inputs)).last_hidden_state
            scores = self._head(hidden[chosen], self._embeddings)
        return cross_entropy(scores.float(), blocks[chosen])

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Return the loss on the held-out blocks, always with the same pieces hidden."""
        self._model.eval()
        parts = self._held_out.split(self._settings.batch_size)
        losses = [float(self._loss(part, number, learns_encoder=False)) for number, part in enumerate(parts)]
        return float(np.average(losses, weights=[len(part) for part in parts]))

    def keep(self, folder: Path, fingerprint: Mapping[str, object]) -> None:
        """Write all that is needed to go on."""
        folder.mkdir(parents=True, exist_ok=True)
        with replacing_file(folder / _STATE) as draft, replacing_file(folder / _DESCRIPTION) as description:
            state = {name: value.detach().cpu().contiguous() for name, value in self._state().items()}
            save_file(state, draft, metadata={"step": str(self.step), "loss_before": repr(self.loss_before)})
            description.write_text(json.dumps(fingerprint, indent=1) + "\n", encoding="utf-8")

    def restore(self, folder: Path, fingerprint: Mapping[str, object]) -> None:
        """Go on from a kept state, which must be of the same encoder, text and settings."""
        cure = f"remove {folder} to begin anew"
        try:
            kept = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
            if kept != fingerprint:
                changed = [
                    name for name in fingerprint if not isinstance(kept, dict) or kept.get(name) != fingerprint[name]
                ]
                raise RelatumError(f"{folder} was begun with another {' and '.join(changed)}; {cure}")
            with safe_open(folder / _STATE, framework="pt") as file:
                facts = file.metadata()
                for parameter in self._parameters().values():  # AdamW makes its state with the first update
                    parameter.grad = torch.zeros_like(parameter)
                for group in self._adam.param_groups:
                    group["lr"] = 0.0
                self._adam.step()
                kept_names = set(file.keys())
                for name, parameter in self._parameters().items():
                    if f"adam.step.{name}" not in kept_names:  # stopped while only the output layer was trained
                        self._adam.state.pop(parameter)
                for name, value in self._state().items():
                    value.data.copy_(file.get_tensor(name))
            self.step, self.loss_before = int(facts["step"]), float(facts["loss_before"])
        except (OSError, ValueError, KeyError, SafetensorError, RuntimeError) as error:
            raise RelatumError(f"{folder}: the kept state cannot be read ({error}); {cure}") from None

    def _parameters(self) -> dict[str, Tensor]:
        both = (("head", self._head), ("encoder", self._model))
        return {f"{prefix}.{name}": value for prefix, part in both for name, value in part.named_parameters()}

    def _state(self) -> dict[str, Tensor]:
        """Return the weights and Adam's state by name."""
        state = dict(self._parameters())
        for name, parameter in self._parameters().items():
            for key, value in self._adam.state.get(parameter, {}).items():
                state[f"adam.{key}.{name}"] = value
        return state

    def write_encoder(self, folder: Path) -> None:
        """Write the encoder in the layout of Hugging Face; all files but the weights are copied from the original."""
        weights = {name: value.detach().float().cpu().contiguous() for name, value in self._model.state_dict().items()}
        save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})
        replaced = {*encoder_weights(self._folder), self._folder / f"{_WEIGHTS}.index.json"}
        for file in encoder_files(self._folder):
            if file not in replaced:
                shutil.copyfile(file, folder / file.name)


def _blocks_hash(blocks: NDArray[np.int32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(blocks).tobytes()).hexdigest()


def _card(encoder: str, texts: Sequence[Path], settings: Adaptation, result: AdaptedEncoder) -> str:
    names = ", ".join(f"`{path.name}`" for path in texts)
    return (
        f"# {encoder}, adapted\n\n"
        f"The encoder `{encoder}`, trained further as a masked language model on {names}: {result.n_pieces:,} pieces, "
        f"{settings.epochs:g} epochs, {result.steps:,} updates of {settings.batch_size} blocks of {settings.length} "
        f"pieces, learning rate {settings.learning_rate:g}.\n\n"
        f"Mean cross entropy of masked pieces of held-out text: {result.loss_before:.3f} before, "
        f"{result.loss_after:.3f} after.\n\n"
        "The licences of the encoder and of the text apply.\n"
    )
