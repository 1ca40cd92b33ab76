"""The gates of a diagonal's cells, forward and backward, as one Triton kernel each.

A kernel treats rows of one diagonal, a row being one cell of one sentence; the second dimension of its grid is the
direction. All buffers are (directions, rows, values) without gaps, and the distance between a row and those of its
neighbours in the diagonals before and after is the same for a whole diagonal: see `geometry`. The values of `gates`
are, WIDTH each, r, z, λ… and v, as in `gates.py`, which says the same in plain torch.
"""

# Triton reads this source itself: its functions have no types, and what is constant is spelt in capitals.
# mypy: ignore-errors
# ruff: noqa: N803, N806

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _place(base, direction, n_rows, row, unit, VALUES: tl.constexpr):
    """Pointers to the values `unit` of the rows `row`, in a direction that has `n_rows` of them."""
    return base + (direction * n_rows + row).to(tl.int64)[:, None] * VALUES + unit[None, :]


@triton.jit
def _share(first, second, third, SLOT: tl.constexpr, N_LAMBDAS: tl.constexpr):
    """λ of a slot: one slot needs no gate, two share one, three have one each."""
    if N_LAMBDAS == 0:
        share = tl.full(first.shape, 1, first.dtype)
    elif N_LAMBDAS == 1:
        share = first if SLOT == 0 else 1 - first
    else:
        share = first if SLOT == 0 else (second if SLOT == 1 else third)
    return share


@triton.jit(do_not_specialize=["n_batch", "n_rows", "cell", "state", "above", "n_cells", "n_states"])
def forward_kernel(
    gates,
    candidate,
    states,
    below,
    projected,
    mask,
    n_batch,
    n_rows,
    cell,
    state,
    above,
    n_cells,
    n_states,
    WIDTH: tl.constexpr,
    N_LAMBDAS: tl.constexpr,
    BELOW: tl.constexpr,
    UP: tl.constexpr,
    LEFT: tl.constexpr,
    READS_BELOW: tl.constexpr,
    READS_UP: tl.constexpr,
    READS_LEFT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Turn projections into gates and candidates, in place, and write the new states.

    The diagonal's rows begin at `cell`, its states at `state`, and the states above them at `above`; the states to
    their left lie one cell, `n_batch` rows, further on. `projected` holds those states times the recurrent weights: row
    by row the parts of up, then the parts of left, which again are read one cell further on.
    """
    N_PARTS: tl.constexpr = 3 + N_LAMBDAS
    VALUES: tl.constexpr = (READS_UP + READS_LEFT) * N_PARTS * WIDTH
    direction = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.arange(0, COLUMNS)
    here = (row < n_rows)[:, None] & (unit < WIDTH)[None, :]
    g = _place(gates, direction, n_cells, cell + row, unit, N_PARTS * WIDTH)
    c = _place(candidate, direction, n_cells, cell + row, unit, WIDTH)
    from_up = _place(projected, direction, n_rows + n_batch, row, unit, VALUES)
    from_left = _place(projected, direction, n_rows + n_batch, n_batch + row, unit, VALUES)
    from_left += READS_UP * N_PARTS * WIDTH

    r = tl.load(g, here, 0)
    z = tl.load(g + WIDTH, here, 0)
    v = tl.load(g + (N_PARTS - 1) * WIDTH, here, 0)
    first, second, third = r, r, r
    if N_LAMBDAS > 0:
        first = tl.load(g + 2 * WIDTH, here, 0)
    if N_LAMBDAS == 3:
        second = tl.load(g + 3 * WIDTH, here, 0)
        third = tl.load(g + 4 * WIDTH, here, 0)
    for side in tl.static_range(2):
        if (side == 0 and READS_UP) or (side == 1 and READS_LEFT):
            p = from_up if side == 0 else from_left
            r += tl.load(p, here, 0)
            z += tl.load(p + WIDTH, here, 0)
            v += tl.load(p + (N_PARTS - 1) * WIDTH, here, 0)
            if N_LAMBDAS > 0:
                first += tl.load(p + 2 * WIDTH, here, 0)
            if N_LAMBDAS == 3:
                second += tl.load(p + 3 * WIDTH, here, 0)
                third += tl.load(p + 4 * WIDTH, here, 0)
    r = tl.sigmoid(r)
    z = tl.sigmoid(z)
    if N_LAMBDAS == 1:
        first = tl.sigmoid(first)
    if N_LAMBDAS == 3:
        highest = tl.maximum(first, tl.maximum(second, third))
        first = tl.exp(first - highest)
        second = tl.exp(second - highest)
        third = tl.exp(third - highest)
        total = first + second + third
        first = first / total
        second = second / total
        third = third / total
    new = 2 * tl.sigmoid(2 * (tl.load(c, here, 0) + r * v)) - 1  # tanh

    mixed = tl.zeros(new.shape, new.dtype)
    if READS_BELOW:
        under = tl.load(_place(below, direction, n_cells, cell + row, unit, WIDTH), here, 0)
        mixed += _share(first, second, third, BELOW, N_LAMBDAS) * under
    if READS_UP:
        over = tl.load(_place(states, direction, n_states, above + row, unit, WIDTH), here, 0)
        mixed += _share(first, second, third, UP, N_LAMBDAS) * over
    if READS_LEFT:
        beside = tl.load(_place(states, direction, n_states, above + n_batch + row, unit, WIDTH), here, 0)
        mixed += _share(first, second, third, LEFT, N_LAMBDAS) * beside
    is_word = tl.load(mask + direction * n_cells + cell + row, row < n_rows, 0)[:, None] != 0

    tl.store(g, r, here)
    tl.store(g + WIDTH, z, here)
    tl.store(g + (N_PARTS - 1) * WIDTH, v, here)
    if N_LAMBDAS > 0:
        tl.store(g + 2 * WIDTH, first, here)
    if N_LAMBDAS == 3:
        tl.store(g + 3 * WIDTH, second, here)
        tl.store(g + 4 * WIDTH, third, here)
    tl.store(c, new, here)
    updated = tl.where(is_word, mixed + z * (new - mixed), 0)
    tl.store(_place(states, direction, n_states, state + row, unit, WIDTH), updated, here)


@triton.jit(
    do_not_specialize=["n_batch", "n_rows", "n_after", "cell", "above", "up_after", "left_after", "n_cells", "n_states"]
)
def backward_kernel(
    gates,
    candidate,
    states,
    below,
    mask,
    grad_states,
    grad_below,
    after,
    through,
    n_batch,
    n_rows,
    n_after,
    cell,
    above,
    up_after,
    left_after,
    n_cells,
    n_states,
    WIDTH: tl.constexpr,
    N_LAMBDAS: tl.constexpr,
    BELOW: tl.constexpr,
    UP: tl.constexpr,
    LEFT: tl.constexpr,
    READS_BELOW: tl.constexpr,
    READS_UP: tl.constexpr,
    READS_LEFT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Turn gates and candidates into the gradients of what was projected, in place.

    `after` holds what the `n_after` rows of the diagonal after this one owe the states above and to the left of them;
    a row finds its share at a distance of `up_after` and `left_after` rows. `through` gets what this diagonal owes its
    own neighbours by way of λ; the caller adds what it owes them through the recurrent weights.
    """
    N_PARTS: tl.constexpr = 3 + N_LAMBDAS
    VALUES: tl.constexpr = (READS_UP + READS_LEFT) * WIDTH
    direction = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.arange(0, COLUMNS)
    here = (row < n_rows)[:, None] & (unit < WIDTH)[None, :]
    g = _place(gates, direction, n_cells, cell + row, unit, N_PARTS * WIDTH)
    c = _place(candidate, direction, n_cells, cell + row, unit, WIDTH)

    grad = tl.load(_place(grad_states, direction, n_cells, cell + row, unit, WIDTH), here, 0)
    if READS_UP:
        owing = row + up_after
        owes = here & ((owing >= 0) & (owing < n_after))[:, None]
        grad += tl.load(_place(after, direction, n_after, owing, unit, VALUES), owes, 0)
    if READS_LEFT:
        owing = row + left_after
        owes = here & ((owing >= 0) & (owing < n_after))[:, None]
        grad += tl.load(_place(after, direction, n_after, owing, unit, VALUES) + READS_UP * WIDTH, owes, 0)
    is_word = tl.load(mask + direction * n_cells + cell + row, row < n_rows, 0)[:, None] != 0
    grad = tl.where(is_word, grad, 0)

    r = tl.load(g, here, 0)
    z = tl.load(g + WIDTH, here, 0)
    v = tl.load(g + (N_PARTS - 1) * WIDTH, here, 0)
    new = tl.load(c, here, 0)
    first, second, third = r, r, r
    if N_LAMBDAS > 0:
        first = tl.load(g + 2 * WIDTH, here, 0)
    if N_LAMBDAS == 3:
        second = tl.load(g + 3 * WIDTH, here, 0)
        third = tl.load(g + 4 * WIDTH, here, 0)
    under = tl.zeros(new.shape, new.dtype)
    over = tl.zeros(new.shape, new.dtype)
    beside = tl.zeros(new.shape, new.dtype)
    if READS_BELOW:
        under = tl.load(_place(below, direction, n_cells, cell + row, unit, WIDTH), here, 0)
    if READS_UP:
        over = tl.load(_place(states, direction, n_states, above + row, unit, WIDTH), here, 0)
    if READS_LEFT:
        beside = tl.load(_place(states, direction, n_states, above + n_batch + row, unit, WIDTH), here, 0)
    of_below = _share(first, second, third, BELOW, N_LAMBDAS)
    of_up = _share(first, second, third, UP, N_LAMBDAS)
    of_left = _share(first, second, third, LEFT, N_LAMBDAS)
    mixed = of_below * under + of_up * over + of_left * beside

    grad_mixed = grad * (1 - z)
    activation = grad * z * (1 - new * new)
    tl.store(g, activation * v * r * (1 - r), here)
    tl.store(g + WIDTH, grad_mixed * z * (new - mixed), here)
    tl.store(g + (N_PARTS - 1) * WIDTH, activation * r, here)
    tl.store(c, activation, here)
    # Through the softmax of three slots and the sigmoid of two alike: λ (state − mixture).
    for slot in tl.static_range(N_LAMBDAS):
        held = tl.zeros(new.shape, new.dtype)
        if slot == BELOW:
            held = under
        if slot == UP:
            held = over
        if slot == LEFT:
            held = beside
        share = first if slot == 0 else (second if slot == 1 else third)
        tl.store(g + (2 + slot) * WIDTH, grad_mixed * share * (held - mixed), here)
    if READS_BELOW:
        tl.store(_place(grad_below, direction, n_cells, cell + row, unit, WIDTH), grad_mixed * of_below, here)
    t = _place(through, direction, n_rows, row, unit, VALUES)
    if READS_UP:
        tl.store(t, grad_mixed * of_up, here)
    if READS_LEFT:
        tl.store(t + READS_UP * WIDTH, grad_mixed * of_left, here)
