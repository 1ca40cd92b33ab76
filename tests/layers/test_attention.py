"""The sequence encoder against equations 7 to 9 written out, and against torch's own attention."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, linear, scaled_dot_product_attention

from relatum.layers.attention import DotProductScores, SelfAttention, SequenceLayer, TableGuidedScores

WIDTH, HEADS, FEEDFORWARD, N = 6, 3, 10, 5
DTYPE = torch.float64


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


def guided(activate: bool = True) -> SelfAttention:
    return SelfAttention(TableGuidedScores(WIDTH, HEADS), WIDTH, HEADS, activate).double()


def dot_product(activate: bool = True) -> SelfAttention:
    return SelfAttention(DotProductScores(WIDTH, HEADS), WIDTH, HEADS, activate).double()


def make_batch() -> tuple[Tensor, Tensor, Tensor]:
    """Sequences of 5 and 3 words, with noise where there are no words."""
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    return torch.randn(2, N, WIDTH, dtype=DTYPE), torch.randn(2, N, N, WIDTH, dtype=DTYPE), mask


def heads_of(values: Tensor) -> list[Tensor]:
    """The parts of WIDTH / HEADS values that the heads have."""
    return list(values.split(WIDTH // HEADS, -1))


def guided_output(attention: SelfAttention, s: Tensor, table: Tensor) -> Tensor:
    """Table-guided attention over one sentence without padding, head by head and query by query."""
    scores = attention.scores
    assert isinstance(scores, TableGuidedScores)
    values = heads_of(linear(s, attention.value.weight, attention.value.bias))
    rows = []
    for i in range(len(s)):
        of_heads = []
        for h in range(HEADS):
            u = scores.guide.weight[h]
            weights = torch.softmax(torch.stack([u @ table[i, j] for j in range(len(s))]), 0)
            of_heads.append(sum((weights[j] * values[h][j] for j in range(len(s))), torch.zeros(2, dtype=DTYPE)))
        rows.append(torch.cat(of_heads))
    return linear(torch.stack(rows), attention.output.weight, attention.output.bias)


def test_table_guided_scores_are_plain_products_with_the_table() -> None:
    scores = TableGuidedScores(WIDTH, HEADS).double()
    assert [name for name, _ in scores.named_parameters()] == ["guide.weight"]
    s, table, _ = make_batch()
    found = scores(s, table)
    assert found.shape == (2, HEADS, N, N)
    for b, h, i, j in torch.cartesian_prod(torch.arange(2), torch.arange(HEADS), torch.arange(N), torch.arange(N)):
        torch.testing.assert_close(found[b, h, i, j], scores.guide.weight[h] @ table[b, i, j], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("make", [guided, dot_product])
def test_weights_sum_to_one_and_padding_has_none(make: Callable[[], SelfAttention]) -> None:
    s, table, mask = make_batch()
    _, weights = make()(s, table, mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, N, dtype=DTYPE), rtol=0, atol=1e-12)
    assert weights[1, :, :, 3:].abs().max() == 0
    assert weights[0].min() > 0
    assert weights[1, :, :, :3].min() > 0


def test_very_low_scores_still_leave_padding_without_weight() -> None:
    attention = guided()
    s, table, mask = make_batch()
    _, weights = attention(s, table * 1e6, mask)
    assert weights[1, :, :, 3:].abs().max() == 0
    assert torch.isfinite(weights).all()


def test_guided_attention_equals_the_formula() -> None:
    attention = guided(activate=False)
    s, table, mask = make_batch()
    found, _ = attention(s, table, mask)
    torch.testing.assert_close(found[0], guided_output(attention, s[0], table[0]), rtol=1e-10, atol=1e-12)
    short = guided_output(attention, s[1, :3], table[1, :3, :3])
    torch.testing.assert_close(found[1, :3], short, rtol=1e-10, atol=1e-12)


def test_dot_product_attention_equals_that_of_torch() -> None:
    attention = dot_product(activate=False)
    scores = attention.scores
    assert isinstance(scores, DotProductScores)
    s, _, mask = make_batch()
    query, key, value = (
        layer(s).view(2, N, HEADS, WIDTH // HEADS).transpose(1, 2)
        for layer in (scores.query, scores.key, attention.value)
    )
    expected = scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
    expected = attention.output(expected.transpose(1, 2).reshape(2, N, WIDTH))
    found, weights = attention(s, None, mask)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    logits = query[0, 1, 2] @ key[0, 1].T / sqrt(WIDTH // HEADS)
    torch.testing.assert_close(weights[0, 1, 2], torch.softmax(logits, 0), rtol=1e-10, atol=1e-12)


def test_output_is_activated_only_where_asked() -> None:
    plain, activated = guided(activate=False), guided(activate=True)
    activated.load_state_dict(plain.state_dict())
    s, table, mask = make_batch()
    before, after = plain(s, table, mask)[0], activated(s, table, mask)[0]
    assert before.min() < 0
    torch.testing.assert_close(after, before.clamp(min=0), rtol=0, atol=0)


def test_sequence_layer_is_equations_8_and_9_with_the_norms_last() -> None:
    layer = SequenceLayer(guided(), WIDTH, FEEDFORWARD, dropout=0.5).double().eval()
    for norm in (layer.attention_norm, layer.feedforward_norm):
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    s, table, _ = make_batch()
    mask = torch.ones(1, N, dtype=torch.bool)
    found, _ = layer(s[:1], table[:1], mask)
    attended = guided_output(layer.attention, s[0], table[0]).relu()
    first, second = (part for part in layer.feedforward if isinstance(part, torch.nn.Linear))

    def norm_of(values: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
        return layer_norm(values, (WIDTH,), norm.weight, norm.bias, eps=1e-5)

    middle = norm_of(s[0] + attended, layer.attention_norm)
    inner = linear(middle, first.weight, first.bias).relu()
    expected = norm_of(middle + linear(inner, second.weight, second.bias), layer.feedforward_norm)
    torch.testing.assert_close(found[0], expected, rtol=1e-10, atol=1e-12)
    assert first.weight.shape == (FEEDFORWARD, WIDTH)


def test_padding_changes_no_word_of_a_sequence() -> None:
    layer = SequenceLayer(guided(), WIDTH, FEEDFORWARD, dropout=0.5).double().eval()
    s, table, mask = make_batch()
    batch, _ = layer(s, table, mask)
    alone, _ = layer(s[1:, :3], table[1:, :3, :3], mask[1:, :3])
    torch.testing.assert_close(batch[1:, :3], alone, rtol=1e-11, atol=1e-13)


def test_width_that_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="4 attention heads"):
        SelfAttention(TableGuidedScores(WIDTH, 4), WIDTH, 4, True)
