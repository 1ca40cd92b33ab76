"""The whole scan of a layer as one Triton kernel, forward and backward.

A *group* of programs scans some sentences in one direction, step by step: a step is an anti-diagonal, and the programs
of a group divide the hidden units among themselves, UNITS each. So a program's share of the recurrent weights stays in
its memory for the whole scan (RESIDENT), and at each step a program needs what the others found at the step before
(COOPERATE). It reads until it is there: no other signal is given, so that a step takes one way through the memory.
A program can also take all units of its group, one slice after the other, reading the weights again at every step.

The rows of all tables of a group are numbered through and treated ROWS at a time, a *tile*; at step d row i is in
column d − i. A *turn* is one slice of one tile at one step; what the next turn reads from memory is asked for once
this turn's product is made, since a product waits for all that was asked for before it.

A cell has eight values a unit: r, z, three λ, v, u and nothing. The columns of a product are in another order, in which
a thread of a tensor core is left with all values of its units. States have INNER values, the last ones zero.
"""

# Triton reads this source itself: its functions have no types, and what is constant is spelt in capitals.
# mypy: ignore-errors
# ruff: noqa: N803, N806

from __future__ import annotations

import triton
import triton.language as tl

_SIZES = ("n_batch", "n_words", "n_groups", "per_group", "n_tiles")
"""Sizes that change from batch to batch: a kernel compiled for some sizes would be compiled again for others."""


@triton.jit
def _in_table(mask, cell, n_batch, n_words):
    """Return True for each cell that is in the table of its sentence."""
    n_rows = tl.maximum(n_words, 1)
    sentence = cell // (n_rows * n_rows)
    there = cell < n_batch * n_words * n_words
    row = tl.load(mask + sentence * n_words + cell // n_rows % n_rows, there, 0)
    column = tl.load(mask + sentence * n_words + cell % n_rows, there, 0)
    return (row != 0) & (column != 0)


@triton.jit(do_not_specialize=("n_batch", "n_words"))
def fill_kernel(states, unwritten, mask, lengths, n_batch, n_words, WORDS: tl.constexpr, CELLS: tl.constexpr):
    """Fill the states of cells in the tables with `unwritten`, WORDS numbers a cell, and all others with zero.

    There is one cell behind the last. A program fills CELLS cells, and counts the words of one sentence.
    """
    program = tl.program_id(0)
    cell = program * CELLS + tl.arange(0, CELLS)
    word = tl.arange(0, WORDS)
    real = _in_table(mask, cell, n_batch, n_words)
    values = tl.where(real[:, None], tl.load(unwritten + word)[None, :], 0)
    there = cell <= n_batch * n_words * n_words
    tl.store(states + cell.to(tl.int64)[:, None] * WORDS + word[None, :], values, there[:, None])
    if program < n_batch:
        n, first = 0, 0
        while first < n_words:
            place = first + tl.arange(0, 128)
            n += tl.sum((tl.load(mask + program * n_words + place, place < n_words, 0) != 0).to(tl.int32))
            first += 128
        tl.store(lengths + program, n)


@triton.jit(do_not_specialize=("n_batch", "n_words"))
def clear_kernel(values, mask, n_batch, n_words, WORDS: tl.constexpr, CELLS: tl.constexpr, BLOCK: tl.constexpr):
    """Fill the values of cells outside the tables with zero, WORDS numbers a cell; a program looks at CELLS cells."""
    cell = tl.program_id(0) * CELLS + tl.arange(0, CELLS)
    there = cell < n_batch * n_words * n_words
    cleared = there & (_in_table(mask, cell, n_batch, n_words) == 0)
    place = values + cell.to(tl.int64)[:, None] * WORDS
    first = 0
    while first < WORDS:
        word = first + tl.arange(0, BLOCK)[None, :]
        tl.store(place + word, tl.zeros((CELLS, BLOCK), tl.int32), cleared[:, None] & (word < WORDS))
        first += BLOCK


@triton.jit
def _tanh(x, FAST: tl.constexpr):
    if FAST:
        y = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    else:
        y = 2 * tl.sigmoid(2 * x) - 1
    return y


@triton.jit
def _sigmoid(x, FAST: tl.constexpr):
    return 0.5 * _tanh(0.5 * x, True) + 0.5 if FAST else tl.sigmoid(x)


@triton.jit
def _softmax(a, b, c, FAST: tl.constexpr):
    if FAST:
        # Far apart they are 0 and 1 in any precision: so far that nothing overflows.
        b = tl.minimum((b - a) * 1.4426950408889634, 60.0)
        c = tl.minimum((c - a) * 1.4426950408889634, 60.0)
        b = tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [b], tl.float32, is_pure=True, pack=1)
        c = tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [c], tl.float32, is_pure=True, pack=1)
        total = 1 + b + c
        a = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [total], tl.float32, is_pure=True, pack=1)
    else:
        highest = tl.maximum(a, tl.maximum(b, c))
        a = tl.exp(a - highest)
        b = tl.exp(b - highest)
        c = tl.exp(c - highest)
        scale = 1 / (a + b + c)
        b *= scale
        c *= scale
        a *= scale
        return a, b, c
    return a, b * a, c * a


@triton.jit
def _n_empty(up, left, over, beside):
    """Return more than 0 if any state has not been written yet: unwritten states have all bits set.

    No computation gives this value. It is a NaN, and adding up finds out faster whether there may be one.
    """
    n = 0
    total = tl.sum(up.to(tl.float32) + left.to(tl.float32)) + tl.sum(over.to(tl.float32) + beside.to(tl.float32))
    if total != total:
        n = tl.max(_is_empty(up) | _is_empty(left)) + tl.max(_is_empty(over) | _is_empty(beside))
    return n


@triton.jit
def _is_empty(state):
    if state.dtype == tl.float32:
        empty = state.to(tl.int32, bitcast=True) == -1
    else:
        empty = state.to(tl.int16, bitcast=True) == -1
    return empty.to(tl.int32)


@triton.jit
def _ask(pointers, here, COOPERATE: tl.constexpr):
    """Load values that, with COOPERATE, another program may be about to write."""
    return tl.load(pointers, here, 0, volatile=True) if COOPERATE else tl.load(pointers, here, 0)


@triton.jit
def _steps(lengths, sentence, n_batch, per_group, SENTENCES: tl.constexpr):
    """Return the number of anti-diagonals of a group's longest table."""
    member = tl.arange(0, SENTENCES)
    here = (member < per_group) & (sentence + member < n_batch)
    return tl.maximum(2 * tl.max(tl.load(lengths + sentence + member, here, 0)) - 1, 0)


@triton.jit
def _rows(
    lengths,
    slot,
    direction,
    sentence,
    n_batch,
    n_words,
    per_group,
    SOUTH: tl.constexpr,
    EAST: tl.constexpr,
):
    """Return for each row of a group: its number i, the step at which it ends, and its corner; it begins at step i.

    The corner is the cell of the row at step 0, if the row went on before its beginning; every step is a column
    further.
    """
    own = sentence + slot // n_words
    n = tl.load(lengths + own, (slot < per_group * n_words) & (own < n_batch), 0)
    i = slot % n_words
    row = tl.where(((SOUTH >> direction) & 1) > 0, n - 1 - i, i)
    column = tl.where(((EAST >> direction) & 1) > 0, n - 1 + i, -i)
    corner = ((own * n_words + row) * n_words + column).to(tl.int64)
    return i, tl.where(i < n, i + n, 0), corner


@triton.jit
def _forward_weights(
    recurrent, first_unit, WIDTH: tl.constexpr, N_SIDES: tl.constexpr, UNITS: tl.constexpr, INNER: tl.constexpr
):
    """Load weights, (N_SIDES · INNER, UNITS · 8): sides alternate in the rows; columns are in a product's order."""
    row = tl.arange(0, N_SIDES * INNER)
    k = row // N_SIDES
    column = tl.arange(0, UNITS * 8)
    unit = first_unit + column // 32 * 4 + column % 8 // 2
    part = column % 32 // 8 * 2 + column % 2
    place = (row % N_SIDES * WIDTH + k)[:, None] * (WIDTH * 8) + (unit * 8 + part)[None, :]
    return tl.load(recurrent + place, (k < WIDTH)[:, None] & (unit < WIDTH)[None, :], 0)


@triton.jit
def _backward_weights(
    recurrent, first_unit, WIDTH: tl.constexpr, N_SIDES: tl.constexpr, UNITS: tl.constexpr, INNER: tl.constexpr
):
    """Load weights, (UNITS · 8, N_SIDES · INNER): the columns have one side after the other."""
    value = first_unit * 8 + tl.arange(0, UNITS * 8)
    column = tl.arange(0, N_SIDES * INNER)
    k = column % INNER
    place = (column // INNER * WIDTH + k)[None, :] * (WIDTH * 8) + value[:, None]
    return tl.load(recurrent + place, (k < WIDTH)[None, :] & (value < WIDTH * 8)[:, None], 0)


@triton.jit
def _reorder(values, ROWS: tl.constexpr, UNITS: tl.constexpr):
    """Reorder units with their eight values into the columns of a product, and back."""
    swapped = tl.permute(tl.reshape(values, (ROWS, UNITS // 4, 4, 4, 2)), (0, 1, 3, 2, 4))
    return tl.reshape(swapped, (ROWS, UNITS * 8))


@triton.jit
def _split(values, ROWS: tl.constexpr, UNITS: tl.constexpr):
    """Return the eight values of each unit, (ROWS, UNITS) each."""
    even, odd = tl.split(tl.reshape(values, (ROWS, UNITS, 4, 2)))
    e0, e1 = tl.split(tl.reshape(even, (ROWS, UNITS, 2, 2)))
    o0, o1 = tl.split(tl.reshape(odd, (ROWS, UNITS, 2, 2)))
    v0, v4 = tl.split(e0)
    v2, v6 = tl.split(e1)
    v1, v5 = tl.split(o0)
    v3, v7 = tl.split(o1)
    return v0, v1, v2, v3, v4, v5, v6, v7


@triton.jit
def _join(v0, v1, v2, v3, v4, v5, v6, v7, ROWS: tl.constexpr, UNITS: tl.constexpr):
    """The reverse of `_split`."""
    even = tl.reshape(tl.join(tl.join(v0, v4), tl.join(v2, v6)), (ROWS, UNITS, 4))
    odd = tl.reshape(tl.join(tl.join(v1, v5), tl.join(v3, v7)), (ROWS, UNITS, 4))
    return tl.reshape(tl.join(even, odd), (ROWS, UNITS * 8))


@triton.jit
def _share(first, second, third, SLOT: tl.constexpr, N_LAMBDAS: tl.constexpr):
    """Return λ of a slot: one slot needs no gate, two share one, three have one each."""
    if N_LAMBDAS == 0:
        share = tl.full(first.shape, 1, first.dtype)
    elif N_LAMBDAS == 1:
        share = first if SLOT == 0 else 1 - first
    else:
        share = first if SLOT == 0 else (second if SLOT == 1 else third)
    return share


@triton.jit(do_not_specialize=_SIZES)
def forward_kernel(
    projected,
    gates,
    states,
    below,
    recurrent,
    lengths,
    n_batch,
    n_words,
    n_groups,
    per_group,
    n_tiles,
    WIDTH: tl.constexpr,
    OF_CELL: tl.constexpr,
    N_DIRECTIONS: tl.constexpr,
    SOUTH: tl.constexpr,
    EAST: tl.constexpr,
    N_LAMBDAS: tl.constexpr,
    BELOW: tl.constexpr,
    UP: tl.constexpr,
    LEFT: tl.constexpr,
    READS_BELOW: tl.constexpr,
    READS_UP: tl.constexpr,
    READS_LEFT: tl.constexpr,
    KEEP: tl.constexpr,
    FAST: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    INNER: tl.constexpr,
    SENTENCES: tl.constexpr,
    RESIDENT: tl.constexpr,
    COOPERATE: tl.constexpr,
    ONE_TILE: tl.constexpr,
    TOTAL: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Fill the states of all cells and, with KEEP, the open gates."""
    N_SIDES: tl.constexpr = READS_UP + READS_LEFT
    N_SLICES: tl.constexpr = (WIDTH + UNITS - 1) // UNITS
    N_OWN: tl.constexpr = 1 if RESIDENT else N_SLICES
    OF_VALUES: tl.constexpr = N_DIRECTIONS * WIDTH * 8
    OF_STATES: tl.constexpr = N_DIRECTIONS * INNER
    program = tl.program_id(0)
    first_slice = 0
    if RESIDENT:
        first_slice = program % N_SLICES
        program = program // N_SLICES
    sentence = (program % n_groups) * per_group
    direction = program // n_groups
    recurrent += direction * (N_SIDES * WIDTH * WIDTH * 8)
    below += direction * WIDTH
    down = (1 - 2 * ((SOUTH >> direction) & 1)) * n_words
    right = 1 - 2 * ((EAST >> direction) & 1)
    projected += direction * (WIDTH * 8)
    gates += direction * (WIDTH * 8)
    states += direction * INNER
    row = tl.arange(0, ROWS)
    k = tl.arange(0, INNER)
    first_unit = first_slice * UNITS
    if RESIDENT:
        weights = _forward_weights(recurrent, first_unit, WIDTH, N_SIDES, UNITS, INNER)

    n_turns = _steps(lengths, sentence, n_batch, per_group, SENTENCES) * n_tiles * N_OWN
    i, end, corner = _rows(lengths, row, direction, sentence, n_batch, n_words, per_group, SOUTH, EAST)
    here = (i <= 0) & (end > 0)
    value = first_unit * 8 + tl.arange(0, UNITS * 8)
    values = tl.load(projected + corner[:, None] * OF_VALUES + value[None, :], here[:, None], 0)
    unit = first_unit + tl.arange(0, UNITS)
    if READS_BELOW:
        under = tl.load(below + corner[:, None] * OF_CELL + unit[None, :], here[:, None] & (unit < WIDTH)[None, :], 0)
    turn = 0
    while turn < n_turns:
        tile = turn // N_OWN % n_tiles
        step = turn // N_OWN // n_tiles
        if not RESIDENT:
            first_unit = turn % N_OWN * UNITS
            weights = _forward_weights(recurrent, first_unit, WIDTH, N_SIDES, UNITS, INNER)
        if not ONE_TILE:
            i, end, corner = _rows(
                lengths, tile * ROWS + row, direction, sentence, n_batch, n_words, per_group, SOUTH, EAST
            )
        at = (step * right).to(tl.int64)
        here = (step >= i) & (step < end)
        has_up = (here & (i > 0))[:, None]
        has_left = (here & (step > i))[:, None]
        unit = first_unit + tl.arange(0, UNITS)
        own = (unit < WIDTH)[None, :]
        from_up = (states + (at - down) * OF_STATES) + corner[:, None] * OF_STATES
        from_left = (states + (at - right) * OF_STATES) + corner[:, None] * OF_STATES
        if READS_UP:
            up = _ask(from_up + k[None, :], has_up, COOPERATE)
            over = _ask(from_up + unit[None, :], has_up, COOPERATE)
        if READS_LEFT:
            left = _ask(from_left + k[None, :], has_left, COOPERATE)
            beside = _ask(from_left + unit[None, :], has_left, COOPERATE)
        total = _reorder(values, ROWS, UNITS).to(TOTAL)
        if COOPERATE:
            if N_SIDES == 2:
                while _n_empty(up, left, over, beside) > 0:
                    up = _ask(from_up + k[None, :], has_up, True)
                    left = _ask(from_left + k[None, :], has_left, True)
                    over = _ask(from_up + unit[None, :], has_up, True)
                    beside = _ask(from_left + unit[None, :], has_left, True)
            elif READS_UP:
                while _n_empty(up, up, over, over) > 0:
                    up = _ask(from_up + k[None, :], has_up, True)
                    over = _ask(from_up + unit[None, :], has_up, True)
            else:
                while _n_empty(left, left, beside, beside) > 0:
                    left = _ask(from_left + k[None, :], has_left, True)
                    beside = _ask(from_left + unit[None, :], has_left, True)
        if N_SIDES == 2:
            around = tl.reshape(tl.join(up, left), (ROWS, 2 * INNER))
        elif READS_UP:
            around = up
        else:
            around = left
        total = tl.dot(around, weights, total, input_precision=PRECISION, out_dtype=TOTAL)
        after = turn + 1
        next_unit = first_unit if RESIDENT else after % N_OWN * UNITS
        next_i, next_end, next_corner = i, end, corner
        if not ONE_TILE:
            next_i, next_end, next_corner = _rows(
                lengths,
                after // N_OWN % n_tiles * ROWS + row,
                direction,
                sentence,
                n_batch,
                n_words,
                per_group,
                SOUTH,
                EAST,
            )
        next_step = after // N_OWN // n_tiles
        next_at = (next_step * right).to(tl.int64)
        next_here = (next_step >= next_i) & (next_step < next_end)
        next_value = next_unit * 8 + tl.arange(0, UNITS * 8)
        next_values = tl.load(
            (projected + next_at * OF_VALUES) + next_corner[:, None] * OF_VALUES + next_value[None, :],
            next_here[:, None],
            0,
        )
        if READS_BELOW:
            unit_after = next_unit + tl.arange(0, UNITS)
            next_under = tl.load(
                (below + next_at * OF_CELL) + next_corner[:, None] * OF_CELL + unit_after[None, :],
                next_here[:, None] & (unit_after < WIDTH)[None, :],
                0,
            )
        r, z, first, second, third, v, u, nothing = _split(_reorder(total, ROWS, UNITS), ROWS, UNITS)
        r = _sigmoid(r, FAST)
        z = _sigmoid(z, FAST)
        if N_LAMBDAS == 1:
            first = _sigmoid(first, FAST)
        if N_LAMBDAS == 3:
            first, second, third = _softmax(first, second, third, FAST)
        new = _tanh(u + r * v, FAST)
        mixed = tl.zeros(new.shape, TOTAL)
        if READS_BELOW:
            mixed += _share(first, second, third, BELOW, N_LAMBDAS) * under.to(TOTAL)
        if READS_UP:
            mixed += _share(first, second, third, UP, N_LAMBDAS) * over.to(TOTAL)
        if READS_LEFT:
            mixed += _share(first, second, third, LEFT, N_LAMBDAS) * beside.to(TOTAL)
        state = (mixed + z * (new - mixed)).to(states.dtype.element_ty)
        tl.store((states + at * OF_STATES) + corner[:, None] * OF_STATES + unit[None, :], state, here[:, None] & own)
        if KEEP:
            value = first_unit * 8 + tl.arange(0, UNITS * 8)
            opened = _join(r, z, first, second, third, v, new, nothing, ROWS, UNITS).to(gates.dtype.element_ty)
            wanted_values = here[:, None] & (value < WIDTH * 8)[None, :]
            tl.store((gates + at * OF_VALUES) + corner[:, None] * OF_VALUES + value[None, :], opened, wanted_values)
        if not COOPERATE:
            tl.debug_barrier()
        values = next_values
        if READS_BELOW:
            under = next_under
        turn = after


@triton.jit
def _sum_of_slices(
    a, a_here, b, b_here, distance, tag, N_SLICES: tl.constexpr, N_SIDES: tl.constexpr, COOPERATE: tl.constexpr
):
    """Return the sum of what every slice owes on both sides, and nonzero marks where a summand is not there yet.

    A number has a tag of its step in the last two bits: 1, 2 or 3, never the tag of the number that it replaces.
    """
    total = tl.zeros(a_here.shape, a.dtype.element_ty)
    late = tl.zeros(a_here.shape, tl.int32)
    if COOPERATE:
        nothing = (late + tag).to(tl.float32, bitcast=True)  # of a size that adds nothing, but with the tag
        for other in tl.static_range(N_SLICES):
            summand = tl.load(a + other * distance, a_here, nothing, volatile=True)
            late |= summand.to(tl.int32, bitcast=True) ^ tag
            total += summand
            if N_SIDES == 2:
                summand = tl.load(b + other * distance, b_here, nothing, volatile=True)
                late |= summand.to(tl.int32, bitcast=True) ^ tag
                total += summand
    else:
        for other in tl.static_range(N_SLICES):
            total += tl.load(a + other * distance, a_here, 0)
            if N_SIDES == 2:
                total += tl.load(b + other * distance, b_here, 0)
    return total, late & 3


@triton.jit
def _asked(
    grad,
    gates,
    states,
    below,
    corner,
    at,
    down,
    right,
    i,
    end,
    step,
    first_unit,
    WIDTH: tl.constexpr,
    OF_CELL: tl.constexpr,
    UNITS: tl.constexpr,
    INNER: tl.constexpr,
    N_DIRECTIONS: tl.constexpr,
    READS_BELOW: tl.constexpr,
    READS_UP: tl.constexpr,
    READS_LEFT: tl.constexpr,
):
    """Load what a turn of the backward scan reads that does not depend on other turns."""
    OF_VALUES: tl.constexpr = N_DIRECTIONS * WIDTH * 8
    OF_STATES: tl.constexpr = N_DIRECTIONS * INNER
    OF_GRAD: tl.constexpr = N_DIRECTIONS * WIDTH
    value = first_unit * 8 + tl.arange(0, UNITS * 8)
    unit = first_unit + tl.arange(0, UNITS)
    here = ((step >= i) & (step < end))[:, None]
    own = (unit < WIDTH)[None, :]
    values = tl.load(
        (gates + at * OF_VALUES) + corner[:, None] * OF_VALUES + value[None, :], here & (value < WIDTH * 8)[None, :], 0
    )
    g = tl.load((grad + at * OF_GRAD) + corner[:, None] * OF_GRAD + unit[None, :], here & own, 0)
    under, over, beside = g, g, g
    if READS_BELOW:
        under = tl.load((below + at * OF_CELL) + corner[:, None] * OF_CELL + unit[None, :], here & own, 0)
    if READS_UP:
        place = (states + (at - down) * OF_STATES) + corner[:, None] * OF_STATES + unit[None, :]
        over = tl.load(place, here & (i > 0)[:, None], 0)
    if READS_LEFT:
        place = (states + (at - right) * OF_STATES) + corner[:, None] * OF_STATES + unit[None, :]
        beside = tl.load(place, here & (step > i)[:, None], 0)
    return values, g, under, over, beside


@triton.jit(do_not_specialize=_SIZES)
def backward_kernel(
    grad,
    gates,
    states,
    below,
    recurrent,
    lengths,
    owed,
    direct,
    grad_projected,
    grad_below,
    neighbours,
    n_batch,
    n_words,
    n_groups,
    per_group,
    n_tiles,
    WIDTH: tl.constexpr,
    OF_CELL: tl.constexpr,
    N_DIRECTIONS: tl.constexpr,
    SOUTH: tl.constexpr,
    EAST: tl.constexpr,
    N_LAMBDAS: tl.constexpr,
    BELOW: tl.constexpr,
    UP: tl.constexpr,
    LEFT: tl.constexpr,
    READS_BELOW: tl.constexpr,
    READS_UP: tl.constexpr,
    READS_LEFT: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    INNER: tl.constexpr,
    SENTENCES: tl.constexpr,
    RESIDENT: tl.constexpr,
    COOPERATE: tl.constexpr,
    ONE_TILE: tl.constexpr,
    TOTAL: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Fill the projections' gradients, the gradients that `below` gets by way of λ, and the neighbours' states.

    What a row owes its neighbours is left for the next step in two buffers, each with room for two steps: `owed`
    through the recurrent weights, a summand for each slice of the units, zero before the scan; `direct` by way of λ.
    """
    N_SIDES: tl.constexpr = READS_UP + READS_LEFT
    N_SLICES: tl.constexpr = (WIDTH + UNITS - 1) // UNITS
    N_OWN: tl.constexpr = 1 if RESIDENT else N_SLICES
    OF_VALUES: tl.constexpr = N_DIRECTIONS * WIDTH * 8
    OWED: tl.constexpr = N_SIDES * INNER
    DIRECT: tl.constexpr = N_SIDES * WIDTH
    program = tl.program_id(0)
    first_slice = 0
    if RESIDENT:
        first_slice = program % N_SLICES
        program = program // N_SLICES
    sentence = (program % n_groups) * per_group
    direction = program // n_groups
    recurrent += direction * (N_SIDES * WIDTH * WIDTH * 8)
    below += direction * WIDTH
    grad_below += direction * WIDTH
    down = (1 - 2 * ((SOUTH >> direction) & 1)) * n_words
    right = 1 - 2 * ((EAST >> direction) & 1)
    grad += direction * WIDTH
    gates += direction * (WIDTH * 8)
    grad_projected += direction * (WIDTH * 8)
    states += direction * INNER
    neighbours += direction * (N_SIDES * WIDTH)
    n_rows = n_tiles * ROWS
    owed += program.to(tl.int64) * (2 * N_SLICES * OWED) * n_rows
    direct += program.to(tl.int64) * (2 * DIRECT) * n_rows
    row = tl.arange(0, ROWS)
    column = tl.arange(0, OWED)
    first_unit = first_slice * UNITS
    if RESIDENT:
        weights = _backward_weights(recurrent, first_unit, WIDTH, N_SIDES, UNITS, INNER)

    n_steps = _steps(lengths, sentence, n_batch, per_group, SENTENCES)
    n_turns = n_steps * n_tiles * N_OWN
    i, end, corner = _rows(lengths, row, direction, sentence, n_batch, n_words, per_group, SOUTH, EAST)
    values, g, under, over, beside = _asked(
        grad,
        gates,
        states,
        below,
        corner,
        ((n_steps - 1) * right).to(tl.int64),
        down,
        right,
        i,
        end,
        n_steps - 1,
        first_unit,
        WIDTH,
        OF_CELL,
        UNITS,
        INNER,
        N_DIRECTIONS,
        READS_BELOW,
        READS_UP,
        READS_LEFT,
    )
    turn = 0
    while turn < n_turns:
        tile = turn // N_OWN % n_tiles
        done = turn // N_OWN // n_tiles
        slot = tile * ROWS + row
        if not RESIDENT:
            first_unit = turn % N_OWN * UNITS
            weights = _backward_weights(recurrent, first_unit, WIDTH, N_SIDES, UNITS, INNER)
        if not ONE_TILE:
            i, end, corner = _rows(lengths, slot, direction, sentence, n_batch, n_words, per_group, SOUTH, EAST)
        step = n_steps - 1 - done
        at = (step * right).to(tl.int64)
        here = (step >= i) & (step < end)
        is_up = here & (2 * i + 1 < end)  # there is a row below
        is_left = here & (step + 1 < end)
        unit = first_unit + tl.arange(0, UNITS)
        own = (unit < WIDTH)[None, :]
        wanted = here[:, None] & own
        new_grad = g.to(TOTAL)
        # What the cells that come after owe this one: the row below it as its "up", its own row as its "left".
        past = (1 - done % 2) * n_rows
        if READS_UP:
            from_up = owed + (past * N_SLICES + slot + 1)[:, None] * OWED + unit[None, :]
            due = direct + (past + slot + 1)[:, None] * DIRECT + unit[None, :]
            up_here = is_up[:, None] & own
            new_grad += tl.load(due, up_here, 0, cache_modifier=".cg")
        if READS_LEFT:
            from_left = owed + (past * N_SLICES + slot)[:, None] * OWED + READS_UP * INNER + unit[None, :]
            due = direct + (past + slot)[:, None] * DIRECT + READS_UP * WIDTH + unit[None, :]
            left_here = is_left[:, None] & own
            new_grad += tl.load(due, left_here, 0, cache_modifier=".cg")
        if not READS_UP:
            from_up, up_here = from_left, left_here
        if not READS_LEFT:
            from_left, left_here = from_up, up_here
        tag = (done + 2) % 3 + 1
        owing, late = _sum_of_slices(
            from_up, up_here, from_left, left_here, n_rows * OWED, tag, N_SLICES, N_SIDES, COOPERATE
        )
        r, z, first, second, third, v, new, _ = _split(values.to(TOTAL), ROWS, UNITS)
        if COOPERATE:
            while tl.max(late) > 0:
                owing, late = _sum_of_slices(
                    from_up, up_here, from_left, left_here, n_rows * OWED, tag, N_SLICES, N_SIDES, True
                )
            # `late` is zero by now; the compiler stumbles over what a loop carries and nobody reads.
            owing += late.to(tl.float32)
        new_grad += owing
        of_below = _share(first, second, third, BELOW, N_LAMBDAS)
        of_up = _share(first, second, third, UP, N_LAMBDAS)
        of_left = _share(first, second, third, LEFT, N_LAMBDAS)
        in_below = tl.zeros(new.shape, TOTAL)
        in_up = tl.zeros(new.shape, TOTAL)
        in_left = tl.zeros(new.shape, TOTAL)
        if READS_BELOW:
            in_below = under.to(TOTAL)
        if READS_UP:
            in_up = over.to(TOTAL)
        if READS_LEFT:
            in_left = beside.to(TOTAL)
        mixed = of_below * in_below + of_up * in_up + of_left * in_left
        g_mixed = new_grad * (1 - z)
        g_u = new_grad * z * (1 - new * new)
        g_r = g_u * v * r * (1 - r)
        g_z = g_mixed * z * (new - mixed)
        g_v = g_u * r
        # Through the softmax of three slots and the sigmoid of two alike: λ (state − mixture).
        zero = tl.zeros(new.shape, TOTAL)
        g_1, g_2, g_3 = zero, zero, zero
        if N_LAMBDAS > 0:
            g_1 = g_mixed * first * ((in_below if BELOW == 0 else (in_up if UP == 0 else in_left)) - mixed)
        if N_LAMBDAS == 3:
            g_2 = g_mixed * second * (in_up - mixed)
            g_3 = g_mixed * third * (in_left - mixed)
        to = grad_projected.dtype.element_ty
        opened = _join(g_r, g_z, g_1, g_2, g_3, g_v, g_u, zero, ROWS, UNITS).to(to)
        total = tl.dot(opened, weights, input_precision=PRECISION, out_dtype=TOTAL)
        after = turn + 1
        next_unit = first_unit if RESIDENT else after % N_OWN * UNITS
        next_i, next_end, next_corner = i, end, corner
        if not ONE_TILE:
            next_i, next_end, next_corner = _rows(
                lengths,
                after // N_OWN % n_tiles * ROWS + row,
                direction,
                sentence,
                n_batch,
                n_words,
                per_group,
                SOUTH,
                EAST,
            )
        next_step = n_steps - 1 - after // N_OWN // n_tiles
        next_values, next_g, next_under, next_over, next_beside = _asked(
            grad,
            gates,
            states,
            below,
            next_corner,
            (next_step * right).to(tl.int64),
            down,
            right,
            next_i,
            next_end,
            next_step,
            next_unit,
            WIDTH,
            OF_CELL,
            UNITS,
            INNER,
            N_DIRECTIONS,
            READS_BELOW,
            READS_UP,
            READS_LEFT,
        )
        now = (done % 2) * n_rows
        due = (now * N_SLICES + first_unit // UNITS * n_rows + slot)[:, None] * OWED + column[None, :]
        if COOPERATE:
            total = ((total.to(tl.int32, bitcast=True) & -4) | (done % 3 + 1)).to(TOTAL, bitcast=True)
        tl.store(owed + due, total, here[:, None] & (column % INNER < WIDTH)[None, :])
        due = (now + slot)[:, None] * DIRECT + unit[None, :]
        if READS_UP:
            tl.store(direct + due, g_mixed * of_up, wanted)
        if READS_LEFT:
            tl.store(direct + due + READS_UP * WIDTH, g_mixed * of_left, wanted)
        value = first_unit * 8 + tl.arange(0, UNITS * 8)
        wanted_values = here[:, None] & (value < WIDTH * 8)[None, :]
        place = (grad_projected + at * OF_VALUES) + corner[:, None] * OF_VALUES + value[None, :]
        tl.store(place, opened, wanted_values)
        if READS_BELOW:
            place = (grad_below + at * OF_CELL) + corner[:, None] * OF_CELL + unit[None, :]
            tl.store(place, (g_mixed * of_below).to(to), wanted)
        seen = (neighbours + at * (N_DIRECTIONS * N_SIDES * WIDTH)) + corner[:, None] * (N_DIRECTIONS * N_SIDES * WIDTH)
        if READS_UP:
            tl.store(seen + unit[None, :], over, wanted)
        if READS_LEFT:
            tl.store(seen + READS_UP * WIDTH + unit[None, :], beside, wanted)
        tl.debug_barrier()
        values, g, under, over, beside = next_values, next_g, next_under, next_over, next_beside
        turn = after
