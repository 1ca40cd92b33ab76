"""The network of ELMo: words from characters, and an LSTM with projected states in either direction."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class CharacterCnn(nn.Module):
    """The vector of a word from its characters: convolutions, the maximum of each, highways and a projection."""

    def __init__(
        self,
        n_characters: int,
        character_width: int,
        filters: Sequence[tuple[int, int]],
        n_highways: int,
        width: int,
        activation: str,
    ) -> None:
        super().__init__()
        total = sum(n for _, n in filters)
        self.characters = nn.Parameter(torch.empty(n_characters, character_width))
        self.convolutions = nn.ModuleList(nn.Conv1d(character_width, n, size) for size, n in filters)
        self.carries = nn.ModuleList(nn.Linear(total, total) for _ in range(n_highways))
        self.transforms = nn.ModuleList(nn.Linear(total, total) for _ in range(n_highways))
        self.projection = nn.Linear(total, width) if total != width else None
        self._activation = ACTIVATIONS[activation]

    def forward(self, characters: Tensor) -> Tensor:
        """(words, characters) to (words, width)."""
        embedded = self.characters[characters].transpose(1, 2)
        parts = [self._activation(convolution(embedded).amax(-1)) for convolution in self.convolutions]
        words = torch.cat(parts, -1)
        for carry, transform in zip(self.carries, self.transforms, strict=True):
            gate = torch.sigmoid(carry(words))
            words = gate * torch.relu(transform(words)) + (1 - gate) * words
        return words if self.projection is None else self.projection(words)


class ProjectedLstm(nn.Module):
    """An LSTM whose output, which its next step reads too, is a clipped projection of its state.

    Gates are in TensorFlow's order (input, candidate, forget, output), and 1 is added to the forget gate. This class
    exists because torch's own LSTM cannot clip.
    """

    def __init__(self, width: int, inner_width: int, cell_clip: float | None, projection_clip: float | None) -> None:
        super().__init__()
        self.read = nn.Linear(width, 4 * inner_width)
        self.recur = nn.Linear(width, 4 * inner_width, bias=False)
        self.project = nn.Linear(inner_width, width, bias=False)
        self._clips = cell_clip, projection_clip

    def forward(self, words: Tensor) -> Tensor:
        """(batch, words, width) to the same; every sentence starts from a state of zeros."""
        cell_clip, projection_clip = self._clips
        read = self.read(words)
        state = words.new_zeros(len(words), self.project.in_features)
        output = words.new_zeros(len(words), words.shape[-1])
        outputs = []
        for step in read.unbind(1):
            enter, candidate, forget, leave = (step + self.recur(output)).chunk(4, -1)
            state = torch.sigmoid(forget + 1) * state + torch.sigmoid(enter) * torch.tanh(candidate)
            if cell_clip is not None:
                state = state.clamp(-cell_clip, cell_clip)
            output = self.project(torch.sigmoid(leave) * torch.tanh(state))
            if projection_clip is not None:
                output = output.clamp(-projection_clip, projection_clip)
            outputs.append(output)
        return torch.stack(outputs, 1)


class Elmo(nn.Module):
    """The character network and the layers of both directions; optional skip connections around all but the first."""

    def __init__(
        self,
        cnn: CharacterCnn,
        forwards: Sequence[ProjectedLstm],
        backwards: Sequence[ProjectedLstm],
        skip_connections: bool,
    ) -> None:
        super().__init__()
        self.cnn = cnn
        self.forwards = nn.ModuleList(forwards)
        self.backwards = nn.ModuleList(backwards)
        self._skip = skip_connections

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(batch, words, width) of the character network to (batch, words, 2 × width × (1 + layers)).

        The character network's vector stands there twice, as if it too had two directions.
        """
        places = torch.arange(words.shape[1], device=words.device)
        reverse = (lengths[:, None] - 1 - places).where(places < lengths[:, None], places)[..., None]
        ahead, back = words, words.take_along_dim(reverse, 1)
        layers = [words, words]
        for i, (forward, backward) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            skip = self._skip and i > 0
            ahead = forward(ahead) + (ahead if skip else 0)
            back = backward(back) + (back if skip else 0)
            layers += [ahead, back.take_along_dim(reverse, 1)]
        return torch.cat(layers, -1)
