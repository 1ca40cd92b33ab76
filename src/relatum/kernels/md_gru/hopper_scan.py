"""The scans for GPUs of compute capability 9, in half precision, with layouts and memory chosen by hand.

It divides the work as `triton_scan` does, and waits for neighbours in the same way. What differs:

- A thread has the same rows and hidden units in all it computes, so that nothing moves between threads but the states
  of the neighbours, which go through shared memory once, on their way to the tensor cores.
- A product has the six values of a unit that depend on neighbours, four and two; the order of its columns is such that
  a thread is left with all values of the units that are its own.
- Sentences follow each other in the same rows: when row i has gone through a table, it begins with row i of the next,
  while the rows below are still in the table before. So no row waits for the longest anti-diagonal to pass.

Forward, the units of a slice come first in what a program reads of a neighbour, whichever slice it is, and the others
after them in a circle: what it needs of its own units is then at the same place in all programs.
"""

# Triton reads this source itself: its functions have no types, and what is constant is spelt in capitals.
# mypy: ignore-errors
# ruff: noqa: N803, N806

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait

_SIZES = ("n_batch", "n_words", "n_groups", "n_lanes", "n_rounds", "n_tiles")
"""Sizes that change from batch to batch: a kernel compiled for some sizes would be compiled again for others."""


@gluon.constexpr_function
def _layout(n_rows, n_units, per_unit):
    """Return the layout of the values of units: a thread has two rows, and in each row four units of every sixteen.

    The second four warps have the second half of the units. With 16 units in all, a thread has two of the four units
    instead, and the same thread of the second four warps has the other two.
    """
    in_thread, of_half = {16: ([1], 2), 32: ([1, 2], 16), 64: ([1, 2, 16], 32)}[n_units]
    values = [[0, 1 << bit] for bit in range(per_unit.bit_length() - 1)]
    return gl.DistributedLinearLayout(
        reg_bases=values + [[0, unit * per_unit] for unit in in_thread] + [[8, 0]],
        lane_bases=[[0, 4 * per_unit], [0, 8 * per_unit], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[16, 0], [32, 0], [0, of_half * per_unit]],
        block_bases=[],
        shape=[n_rows, n_units * per_unit],
    )


@gluon.jit
def _place(unit, WIDTH: gl.constexpr):
    """Return the place of a unit among the units of a cell in memory, see `hopper_launch.order_of_units`."""
    return gl.where(unit // 16 * 16 + 16 <= WIDTH, unit // 16 * 16 + unit % 4 * 4 + unit % 16 // 4, unit)


@gluon.constexpr_function
def _layout_of_pairs(n_rows, n_pairs):
    """Return the layout of the neighbours' states: a thread has its two rows, and groups of four or two pairs in each.

    No two threads have the same pair: one thread might see a value that another does not see yet.
    """
    group = min(4, n_pairs // 8)
    in_thread = [[0, 1], [0, 2]][: group // 2] + ([[0, 16]] if n_pairs == 64 else [])
    return gl.DistributedLinearLayout(
        reg_bases=[*in_thread, [8, 0]],
        lane_bases=[[0, group], [0, 2 * group], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[16, 0], [32, 0], [0, n_pairs // 2]],
        block_bases=[],
        shape=[n_rows, n_pairs],
    )


@gluon.jit
def _tanh(x):
    return gl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], gl.float32, is_pure=True, pack=1)


@gluon.jit
def _sigmoid(x):
    return 0.5 * _tanh(0.5 * x) + 0.5


@gluon.jit
def _power(x):
    return gl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], gl.float32, is_pure=True, pack=1)


@gluon.jit
def _softmax(a, b, c):
    # Far apart they are 0 and 1 in any precision: so far that nothing overflows.
    b = _power(gl.minimum((b - a) * 1.4426950408889634, 60.0))
    c = _power(gl.minimum((c - a) * 1.4426950408889634, 60.0))
    total = 1 + b + c
    a = gl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [total], gl.float32, is_pure=True, pack=1)
    return a, b * a, c * a


@gluon.jit
def _share(first, second, third, SLOT: gl.constexpr, N_LAMBDAS: gl.constexpr):
    """Return λ of a slot: one slot needs no gate, two share one, three have one each."""
    if N_LAMBDAS == 0:
        share = gl.full_like(first, 1.0)
    elif N_LAMBDAS == 1:
        share = first if SLOT == 0 else 1 - first
    else:
        share = first if SLOT == 0 else (second if SLOT == 1 else third)
    return share


@gluon.jit
def _slots(tile, n_words, n_lanes, ROWS: gl.constexpr, LAYOUT: gl.constexpr):
    """Return the lane of each row of a tile, and its number i in the lane's tables; beyond the lanes no row begins."""
    slot = tile * ROWS + gl.arange(0, ROWS, layout=LAYOUT)
    lane = slot // n_words
    return lane, gl.where(lane < n_lanes, slot - lane * n_words, 1 << 30)


@gluon.jit
def _words(lengths, first, a_round, lane, i, n_batch, n_words, n_lanes, n_rounds):
    """Return the number of words of the sentence that each row is in during a round; 0 if there is no sentence."""
    own = first + a_round * n_lanes + lane
    known = (i < n_words) & (own < n_batch) & (a_round >= 0) & (a_round < n_rounds)
    return gl.load(lengths + own, known, 0)


@gluon.jit
def _cells(lane, i, a_round, step, n_now, n_before, first, n_words, n_lanes, south, east):
    """Return each row's cell at a step of a round, its column, its sentence's words, and True if there is a cell.

    Rows that have not begun this round (i > step) are still in the round before.
    """
    column = step - i
    begun = column >= 0
    column = gl.where(begun, column, column + n_words)
    n = gl.where(begun, n_now, n_before)
    own = first + gl.where(begun, a_round, a_round - 1) * n_lanes + lane
    row = gl.where(south, n - 1 - i, i)
    cell = (own * n_words + row) * n_words + gl.where(east, n - 1 - column, column)
    return cell, column, n, (i < n) & (column < n)


@gluon.jit
def _as(rows, LAYOUT: gl.constexpr):
    """Convert one number for each row to the layout of other tensors; a thread has the same rows in all layouts."""
    return gl.convert_layout(rows, gl.SliceLayout(1, LAYOUT), assert_trivial=True)[:, None]


@gluon.jit
def _at(cells, OF_CELL: gl.constexpr, LAYOUT: gl.constexpr):
    """Return the offset at which the values of each row's cell begin."""
    return _as(cells, LAYOUT).to(gl.int64) * OF_CELL


@gluon.jit
def _most(values, shared, ROWS: gl.constexpr, COLUMNS: gl.constexpr, HALF: gl.constexpr):
    """Return the largest of unsigned integers; shared memory has room for one number of each warp.

    The second four warps have the columns with the bit HALF set.
    """
    EVERY: gl.constexpr = gl.DistributedLinearLayout([[1], [2], [4]], [[0]] * 5, [[0]] * 3, [], [8])
    by_warp = gl.reshape(values, (ROWS // 16, 16, COLUMNS // (2 * HALF), 2, HALF))
    by_warp = gl.permute(by_warp, (0, 3, 1, 2, 4))
    shared.store(gl.max(gl.reshape(by_warp, (8, ROWS * COLUMNS // 8)), 1))
    return gl.max(shared.load(EVERY), 0)


@gluon.jit
def _n_steps(lengths, first, n_batch, n_words, n_lanes, n_rounds, SENTENCES: gl.constexpr):
    """Return the number of steps of a group, until the last of its tables is done."""
    member = gl.arange(0, SENTENCES, layout=gl.BlockedLayout([1], [32], [8], [0]))
    n = gl.load(lengths + first + member, (member < n_lanes * n_rounds) & (first + member < n_batch), 0)
    return gl.max(gl.where(n > 0, member // n_lanes * n_words + 2 * n - 1, 0), 0)


@gluon.jit
def _weights(
    recurrent,
    first_unit,
    side,
    WIDTH: gl.constexpr,
    UNITS: gl.constexpr,
    INNER: gl.constexpr,
    CIRCLE: gl.constexpr,
    PER_UNIT: gl.constexpr,
    FIRST_VALUE: gl.constexpr,
):
    """Load a side's weights, (INNER, UNITS · PER_UNIT): columns for some values of each unit, in a product's order."""
    LOADED: gl.constexpr = gl.BlockedLayout([1, 2], [4, 8], [8, 1], [1, 0])
    k = gl.arange(0, INNER, layout=gl.SliceLayout(1, LOADED))
    k = gl.where(k < CIRCLE, (first_unit + k) % CIRCLE, INNER)
    column = gl.arange(0, UNITS * PER_UNIT, layout=gl.SliceLayout(0, LOADED))
    number = column // 8 // (PER_UNIT // 2)
    unit = first_unit + number // 4 * 16 + column % 8 // 2 * 4 + number % 4
    value = FIRST_VALUE + column // 8 % (PER_UNIT // 2) * 2 + column % 2
    place = (side * WIDTH + k)[:, None] * (WIDTH * 8) + (_place(unit, WIDTH) * 8 + value)[None, :]
    return gl.load(recurrent + place, (k < WIDTH)[:, None] & (unit < WIDTH)[None, :], 0)


@gluon.jit
def _to_columns(a, b, ROWS: gl.constexpr, UNITS: gl.constexpr, LAYOUT: gl.constexpr):
    """Put two values of each unit into the columns of a product."""
    joined = gl.reshape(gl.join(a, b), (ROWS, UNITS // 16, 4, 4, 2))
    return gl.convert_layout(
        gl.reshape(gl.permute(joined, (0, 1, 3, 2, 4)), (ROWS, UNITS * 2)), LAYOUT, assert_trivial=True
    )


@gluon.jit
def _to_columns_of_four(a, b, c, d, ROWS: gl.constexpr, UNITS: gl.constexpr, LAYOUT: gl.constexpr):
    """Put four values of each unit into the columns of a product."""
    joined = gl.join(gl.join(a, c), gl.join(b, d))  # the last index is the lower bit
    joined = gl.reshape(joined, (ROWS, UNITS // 16, 4, 4, 2, 2))
    return gl.convert_layout(
        gl.reshape(gl.permute(joined, (0, 1, 3, 4, 2, 5)), (ROWS, UNITS * 4)), LAYOUT, assert_trivial=True
    )


@gluon.jit
def _from_columns(total, ROWS: gl.constexpr, UNITS: gl.constexpr, LAYOUT: gl.constexpr):
    """The reverse of `_to_columns`."""
    swapped = gl.permute(gl.reshape(total, (ROWS, UNITS // 16, 4, 4, 2)), (0, 1, 3, 2, 4))
    a, b = gl.split(gl.reshape(swapped, (ROWS, UNITS, 2)))
    return gl.convert_layout(a, LAYOUT, assert_trivial=True), gl.convert_layout(b, LAYOUT, assert_trivial=True)


@gluon.jit
def _from_columns_of_four(total, ROWS: gl.constexpr, UNITS: gl.constexpr, LAYOUT: gl.constexpr):
    """The reverse of `_to_columns_of_four`."""
    swapped = gl.permute(gl.reshape(total, (ROWS, UNITS // 16, 4, 2, 4, 2)), (0, 1, 4, 2, 3, 5))
    even, odd = gl.split(gl.reshape(swapped, (ROWS, UNITS, 2, 2)))
    a, c = gl.split(even)
    b, d = gl.split(odd)
    return (
        gl.convert_layout(a, LAYOUT, assert_trivial=True),
        gl.convert_layout(b, LAYOUT, assert_trivial=True),
        gl.convert_layout(c, LAYOUT, assert_trivial=True),
        gl.convert_layout(d, LAYOUT, assert_trivial=True),
    )


@gluon.jit
def _split(values, ROWS: gl.constexpr, UNITS: gl.constexpr, LAYOUT: gl.constexpr):
    """Return the first seven of the eight values of each unit, in float32; the eighth is nothing."""
    even, odd = gl.split(gl.reshape(values, (ROWS, UNITS, 4, 2)))
    e0, e1 = gl.split(gl.reshape(even, (ROWS, UNITS, 2, 2)))
    o0, o1 = gl.split(gl.reshape(odd, (ROWS, UNITS, 2, 2)))
    v0, v4 = gl.split(e0)
    v2, v6 = gl.split(e1)
    v1, v5 = gl.split(o0)
    v3, _v7 = gl.split(o1)
    return (
        gl.convert_layout(v0, LAYOUT, assert_trivial=True).to(gl.float32),
        gl.convert_layout(v1, LAYOUT, assert_trivial=True).to(gl.float32),
        gl.convert_layout(v2, LAYOUT, assert_trivial=True).to(gl.float32),
        gl.convert_layout(v3, LAYOUT, assert_trivial=True).to(gl.float32),
        gl.convert_layout(v4, LAYOUT, assert_trivial=True).to(gl.float32),
        gl.convert_layout(v5, LAYOUT, assert_trivial=True).to(gl.float32),
        gl.convert_layout(v6, LAYOUT, assert_trivial=True).to(gl.float32),
    )


@gluon.jit
def _join(v0, v1, v2, v3, v4, v5, v6, v7, ROWS: gl.constexpr, UNITS: gl.constexpr, LAYOUT: gl.constexpr):
    """The reverse of `_split`."""
    even = gl.reshape(gl.join(gl.join(v0, v4), gl.join(v2, v6)), (ROWS, UNITS, 4))
    odd = gl.reshape(gl.join(gl.join(v1, v5), gl.join(v3, v7)), (ROWS, UNITS, 4))
    return gl.convert_layout(gl.reshape(gl.join(even, odd), (ROWS, UNITS * 8)), LAYOUT, assert_trivial=True)


@gluon.jit
def _multiply(tile, weights, total, K: gl.constexpr):
    """Start a product with the first K columns of a tile, sixteen or more at a time."""
    for bit in gl.static_range(4):
        if K // (128 >> bit) % 2 == 1:
            total = warpgroup_mma(
                tile.slice(K // (256 >> bit) * (256 >> bit), 128 >> bit, 1),
                weights.slice(K // (256 >> bit) * (256 >> bit), 128 >> bit, 0),
                total,
                is_async=True,
            )
    return total


@gluon.jit(do_not_specialize=_SIZES)
def forward_kernel(
    projected,
    gates,
    states,
    words,
    below,
    recurrent,
    lengths,
    n_batch,
    n_words,
    n_groups,
    n_lanes,
    n_rounds,
    n_tiles,
    WIDTH: gl.constexpr,
    OF_CELL: gl.constexpr,
    N_DIRECTIONS: gl.constexpr,
    SOUTH: gl.constexpr,
    EAST: gl.constexpr,
    N_LAMBDAS: gl.constexpr,
    BELOW: gl.constexpr,
    UP: gl.constexpr,
    LEFT: gl.constexpr,
    READS_BELOW: gl.constexpr,
    READS_UP: gl.constexpr,
    READS_LEFT: gl.constexpr,
    KEEP: gl.constexpr,
    UNITS: gl.constexpr,
    INNER: gl.constexpr,
    ONE_TILE: gl.constexpr,
    ROWS: gl.constexpr,
    SENTENCES: gl.constexpr,
):
    """Fill the states of all cells and, with KEEP, the open gates; `words` are the states as pairs, 32 bits each."""
    N_SLICES: gl.constexpr = (WIDTH + UNITS - 1) // UNITS
    OF_VALUES: gl.constexpr = N_DIRECTIONS * WIDTH * 8
    OF_STATES: gl.constexpr = N_DIRECTIONS * INNER
    PAIRS: gl.constexpr = INNER // 2
    # What lies behind the units is zero and need not be read; groups of eight are read at once.
    FULL: gl.constexpr = (WIDTH + 7) // 8 * 8
    CIRCLE: gl.constexpr = (WIDTH + 15) // 16 * 16
    dtype: gl.constexpr = states.dtype.element_ty
    UNIT: gl.constexpr = _layout(ROWS, UNITS, 1)
    VALUE: gl.constexpr = _layout(ROWS, UNITS, 8)
    AROUND: gl.constexpr = _layout_of_pairs(ROWS, PAIRS)
    ROW: gl.constexpr = gl.SliceLayout(1, UNIT)
    OF_FOUR: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, UNITS * 2, 16])
    OF_TWO: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, UNITS, 16])
    TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, INNER], dtype)
    TILE_PAIRS: gl.constexpr = gl.NVMMASharedLayout(TILE.swizzle_byte_width, 32, 2)
    WIDE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([INNER, UNITS * 4], dtype)
    NARROW: gl.constexpr = gl.NVMMASharedLayout.get_default_for([INNER, UNITS * 2], dtype)

    program = gl.program_id(0)
    first_unit = program % N_SLICES * UNITS
    program = program // N_SLICES
    first = program % n_groups * (n_lanes * n_rounds)
    direction = program // n_groups
    south = ((SOUTH >> direction) & 1) > 0
    east = ((EAST >> direction) & 1) > 0
    down = gl.where(south, -n_words, n_words)
    right = gl.where(east, -1, 1)
    recurrent += direction * ((READS_UP + READS_LEFT) * WIDTH * WIDTH * 8)
    below += direction * WIDTH
    projected += direction * (WIDTH * 8)
    gates += direction * (WIDTH * 8)
    states += direction * INNER
    words += direction * PAIRS

    if READS_UP:
        around_up = gl.allocate_shared_memory(gl.int32, [ROWS, PAIRS], TILE_PAIRS)
        tile_up = around_up._reinterpret(dtype, [ROWS, INNER], TILE)
        up_four = gl.allocate_shared_memory(
            dtype, [INNER, UNITS * 4], WIDE, _weights(recurrent, first_unit, 0, WIDTH, UNITS, INNER, CIRCLE, 4, 0)
        )
        up_two = gl.allocate_shared_memory(
            dtype, [INNER, UNITS * 2], NARROW, _weights(recurrent, first_unit, 0, WIDTH, UNITS, INNER, CIRCLE, 2, 4)
        )
    if READS_LEFT:
        around_left = gl.allocate_shared_memory(gl.int32, [ROWS, PAIRS], TILE_PAIRS)
        tile_left = around_left._reinterpret(dtype, [ROWS, INNER], TILE)
        left_four = gl.allocate_shared_memory(
            dtype,
            [INNER, UNITS * 4],
            WIDE,
            _weights(recurrent, first_unit, READS_UP, WIDTH, UNITS, INNER, CIRCLE, 4, 0),
        )
        left_two = gl.allocate_shared_memory(
            dtype,
            [INNER, UNITS * 2],
            NARROW,
            _weights(recurrent, first_unit, READS_UP, WIDTH, UNITS, INNER, CIRCLE, 2, 4),
        )
    fence_async_shared()

    n_steps = _n_steps(lengths, first, n_batch, n_words, n_lanes, n_rounds, SENTENCES)
    n_turns = n_steps * n_tiles

    place = gl.arange(0, PAIRS, layout=gl.SliceLayout(0, AROUND))
    pair = (first_unit // 2 + place) % (CIRCLE // 2)
    is_read = ((place < CIRCLE // 2) & (pair < FULL // 2))[None, :]
    unit = first_unit + gl.arange(0, UNITS, layout=gl.SliceLayout(0, UNIT))
    own = (unit < WIDTH)[None, :]
    written = (unit < FULL)[None, :]
    number = gl.arange(0, UNITS * 8, layout=gl.SliceLayout(0, VALUE))
    of_value = first_unit + number // 8
    value = _place(of_value, WIDTH) * 8 + number % 8
    own_values = (of_value < WIDTH)[None, :]
    of_warps = gl.allocate_shared_memory(gl.uint32, [8], gl.SwizzledSharedLayout(1, 1, 1, [0]))

    lane, i = _slots(0, n_words, n_lanes, ROWS, ROW)
    n_now = _words(lengths, first, 0, lane, i, n_batch, n_words, n_lanes, n_rounds)
    n_next = _words(lengths, first, 1, lane, i, n_batch, n_words, n_lanes, n_rounds)
    n_before = gl.zeros_like(n_now)
    cell, column, _n, here = _cells(lane, i, 0, 0, n_now, n_before, first, n_words, n_lanes, south, east)
    values = gl.load(
        projected + _at(cell, OF_VALUES, VALUE) + value[None, :],
        _as(here, VALUE) & own_values,
        0,
        eviction_policy="evict_first",
    )
    if READS_BELOW:
        under = gl.load(
            below + _at(cell, OF_CELL, UNIT) + unit[None, :], _as(here, UNIT) & own, 0, eviction_policy="evict_first"
        )
    # With several tiles, what the next turn reads of its neighbours was mostly written a turn before this one.
    EARLY: gl.constexpr = not ONE_TILE and UNITS < 64
    up = gl.zeros((ROWS, PAIRS), gl.int32, AROUND)
    left = gl.zeros((ROWS, PAIRS), gl.int32, AROUND)
    a_round = 0
    step = 0
    tile = 0
    turn = 0
    while turn < n_turns:
        from_up = words + _at(cell - down, OF_STATES // 2, AROUND) + pair[None, :]
        from_left = words + _at(cell - right, OF_STATES // 2, AROUND) + pair[None, :]
        up_there = _as(here & (i > 0), AROUND) & is_read
        left_there = _as(here & (column > 0), AROUND) & is_read
        if not EARLY:
            if READS_UP:
                up = gl.load(from_up, up_there, 0, volatile=True)
            if READS_LEFT:
                left = gl.load(from_left, left_there, 0, volatile=True)
        late = True
        while late:
            if READS_UP:
                around_up.store(up)
            if READS_LEFT:
                around_left.store(left)
            fence_async_shared()
            if READS_UP and READS_LEFT:
                most = gl.maximum(up.to(gl.uint32, bitcast=True), left.to(gl.uint32, bitcast=True))
            elif READS_UP:
                most = up.to(gl.uint32, bitcast=True)
            else:
                most = left.to(gl.uint32, bitcast=True)
            late = _most(most, of_warps, ROWS, PAIRS, PAIRS // 2) == 0xFFFFFFFF
            if late:
                if READS_UP:
                    up = gl.load(from_up, up_there, 0, volatile=True)
                if READS_LEFT:
                    left = gl.load(from_left, left_there, 0, volatile=True)
        p_r, p_z, p_1, p_2, p_3, p_v, u = _split(values, ROWS, UNITS, UNIT)
        four = _to_columns_of_four(p_r, p_z, p_1, p_2, ROWS, UNITS, OF_FOUR)
        two = _to_columns(p_3, p_v, ROWS, UNITS, OF_TWO)
        if READS_UP:
            four = _multiply(tile_up, up_four, four, CIRCLE)
            two = _multiply(tile_up, up_two, two, CIRCLE)
        if READS_LEFT:
            four = _multiply(tile_left, left_four, four, CIRCLE)
            two = _multiply(tile_left, left_two, two, CIRCLE)
        if READS_UP:
            over = tile_up.slice(0, UNITS, 1).load(UNIT).to(gl.float32)
        if READS_LEFT:
            beside = tile_left.slice(0, UNITS, 1).load(UNIT).to(gl.float32)
        four, two = warpgroup_mma_wait(0, deps=(four, two))

        # What the next turn reads is asked for now: a product waits for all that was asked for before it.
        at, is_here, under_now = cell, here, here
        if READS_BELOW:
            under_now = under
        turn += 1
        tile += 1
        if tile == n_tiles:
            tile = 0
            step += 1
            if step == n_words:
                step = 0
                a_round += 1
                if ONE_TILE:
                    n_before = n_now
                    n_now = n_next
                    n_next = _words(lengths, first, a_round + 1, lane, i, n_batch, n_words, n_lanes, n_rounds)
        if not ONE_TILE:
            lane, i = _slots(tile, n_words, n_lanes, ROWS, ROW)
            n_now = _words(lengths, first, a_round, lane, i, n_batch, n_words, n_lanes, n_rounds)
            n_before = _words(lengths, first, a_round - 1, lane, i, n_batch, n_words, n_lanes, n_rounds)
        cell, column, _n, here = _cells(lane, i, a_round, step, n_now, n_before, first, n_words, n_lanes, south, east)
        values = gl.load(
            projected + _at(cell, OF_VALUES, VALUE) + value[None, :],
            _as(here, VALUE) & own_values,
            0,
            eviction_policy="evict_first",
        )
        if READS_BELOW:
            under = gl.load(
                below + _at(cell, OF_CELL, UNIT) + unit[None, :],
                _as(here, UNIT) & own,
                0,
                eviction_policy="evict_first",
            )
        if EARLY and READS_UP:
            from_up = words + _at(cell - down, OF_STATES // 2, AROUND) + pair[None, :]
            up = gl.load(from_up, _as(here & (i > 0), AROUND) & is_read, 0, volatile=True)
        if EARLY and READS_LEFT:
            from_left = words + _at(cell - right, OF_STATES // 2, AROUND) + pair[None, :]
            left = gl.load(from_left, _as(here & (column > 0), AROUND) & is_read, 0, volatile=True)

        r, z, l_1, l_2 = _from_columns_of_four(four, ROWS, UNITS, UNIT)
        l_3, v = _from_columns(two, ROWS, UNITS, UNIT)
        r = _sigmoid(r)
        z = _sigmoid(z)
        if N_LAMBDAS == 1:
            l_1 = _sigmoid(l_1)
        if N_LAMBDAS == 3:
            l_1, l_2, l_3 = _softmax(l_1, l_2, l_3)
        new = _tanh(u + r * v)
        mixed = gl.zeros_like(new)
        if READS_BELOW:
            mixed += _share(l_1, l_2, l_3, BELOW, N_LAMBDAS) * under_now.to(gl.float32)
        if READS_UP:
            mixed += _share(l_1, l_2, l_3, UP, N_LAMBDAS) * over
        if READS_LEFT:
            mixed += _share(l_1, l_2, l_3, LEFT, N_LAMBDAS) * beside
        state = (mixed + z * (new - mixed)).to(dtype)
        gl.store(states + _at(at, OF_STATES, UNIT) + unit[None, :], state, _as(is_here, UNIT) & written)
        if KEEP:
            opened = _join(
                r.to(dtype),
                z.to(dtype),
                l_1.to(dtype),
                l_2.to(dtype),
                l_3.to(dtype),
                v.to(dtype),
                new.to(dtype),
                gl.zeros_like(state),
                ROWS,
                UNITS,
                VALUE,
            )
            gl.store(
                gates + _at(at, OF_VALUES, VALUE) + value[None, :],
                opened,
                _as(is_here, VALUE) & own_values,
                cache_modifier=".cs",
            )


@gluon.jit
def _backward_weights(
    recurrent,
    first_unit,
    WIDTH: gl.constexpr,
    N_SIDES: gl.constexpr,
    UNITS: gl.constexpr,
    INNER: gl.constexpr,
    PER_UNIT: gl.constexpr,
    FIRST_VALUE: gl.constexpr,
):
    """Load weights, (UNITS · PER_UNIT, N_SIDES · INNER): rows for some of a unit's values, columns in product order."""
    LOADED: gl.constexpr = gl.BlockedLayout([1, 2], [4, 8], [8, 1], [1, 0])
    row = gl.arange(0, UNITS * PER_UNIT, layout=gl.SliceLayout(1, LOADED))
    unit = first_unit + row // PER_UNIT
    column = gl.arange(0, N_SIDES * INNER, layout=gl.SliceLayout(0, LOADED))
    column = column // 16 * 16 + column % 8 // 2 * 4 + column // 8 % 2 * 2 + column % 2
    k = column % INNER
    value = _place(unit, WIDTH) * 8 + FIRST_VALUE + row % PER_UNIT
    place = (column // INNER * WIDTH + k)[None, :] * (WIDTH * 8) + value[:, None]
    return gl.load(recurrent + place, (k < WIDTH)[None, :] & (unit < WIDTH)[:, None], 0)


@gluon.constexpr_function
def _layout_of_owed(n_rows, n_columns):
    """Return the layout of a product whose columns are in order: a thread has four columns of every sixteen."""
    blocks = (n_columns // 32).bit_length() - 1
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2]] + [[0, 16 << bit] for bit in range(blocks)] + [[8, 0]],
        lane_bases=[[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[16, 0], [32, 0], [0, n_columns // 2]],
        block_bases=[],
        shape=[n_rows, n_columns],
    )


@gluon.jit
def _sum_of_slices(up, up_there, left, left_there, distance, tag, N: gl.constexpr, N_SIDES: gl.constexpr):
    """Return the sum of what is owed on both sides, and nonzero marks where a summand is not there yet.

    A number has a tag of its step in the last two bits: 1, 2 or 3, never the tag of the number that it replaces.
    """
    late = gl.zeros_like(up_there, dtype=gl.int32)
    nothing = (late + tag).to(gl.float32, bitcast=True)  # of a size that adds nothing, but with the tag
    total = gl.zeros_like(nothing)
    for other in gl.static_range(N):
        summand = gl.load(up + other * distance, up_there, nothing, volatile=True)
        late |= summand.to(gl.int32, bitcast=True) ^ tag
        total += summand
        if N_SIDES == 2:
            summand = gl.load(left + other * distance, left_there, nothing, volatile=True)
            late |= summand.to(gl.int32, bitcast=True) ^ tag
            total += summand
    return total, late & 3


@gluon.jit
def _owing(
    owed,
    done,
    tile,
    is_here,
    i,
    column,
    n,
    unit,
    n_rows,
    WIDTH: gl.constexpr,
    INNER: gl.constexpr,
    N_SLICES: gl.constexpr,
    READS_UP: gl.constexpr,
    READS_LEFT: gl.constexpr,
    ROWS: gl.constexpr,
):
    """Return what the cells that come after owe the cells of a turn, and nonzero marks where it is not there yet.

    The cells below a cell have read it as their "up", the next cells in its row as their "left".
    """
    N_SIDES: gl.constexpr = READS_UP + READS_LEFT
    UNIT: gl.constexpr = _layout(ROWS, unit.shape[0], 1)
    past = (1 - done % 2) * n_rows
    slot = tile * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, UNIT))
    from_slot = owed + _at(past * (N_SLICES + 1) + slot, N_SIDES * INNER, UNIT) + unit[None, :]
    written = (unit < (WIDTH + 7) // 8 * 8)[None, :]
    if READS_UP:
        from_up = from_slot + N_SIDES * INNER
        up_there = _as(is_here & (i + 1 < n), UNIT) & written
    if READS_LEFT:
        from_left = from_slot + READS_UP * INNER
        left_there = _as(is_here & (column + 1 < n), UNIT) & written
    if not READS_UP:
        from_up, up_there = from_left, left_there
    if not READS_LEFT:
        from_left, left_there = from_up, up_there
    tag = (done + 2) % 3 + 1
    distance = n_rows * (N_SIDES * INNER)
    return _sum_of_slices(from_up, up_there, from_left, left_there, distance, tag, N_SLICES + 1, N_SIDES)


@gluon.jit
def _tagged(value, tag):
    return ((value.to(gl.int32, bitcast=True) & -4) | tag).to(gl.float32, bitcast=True)


@gluon.jit
def _ask(
    grad,
    gates,
    states,
    below,
    cell,
    here,
    has_up,
    has_left,
    down,
    right,
    unit,
    of_value,
    value,
    WIDTH: gl.constexpr,
    OF_CELL: gl.constexpr,
    INNER: gl.constexpr,
    N_DIRECTIONS: gl.constexpr,
    READS_BELOW: gl.constexpr,
    READS_UP: gl.constexpr,
    READS_LEFT: gl.constexpr,
    UNIT: gl.constexpr,
    VALUE: gl.constexpr,
):
    """Load what a turn of the backward scan reads that does not depend on other turns."""
    own = _as(here, UNIT) & (unit < WIDTH)[None, :]
    own_values = _as(here, VALUE) & (of_value < WIDTH)[None, :]
    values = gl.load(
        gates + _at(cell, N_DIRECTIONS * WIDTH * 8, VALUE) + value[None, :],
        own_values,
        0,
        eviction_policy="evict_first",
    )
    g = gl.load(grad + _at(cell, N_DIRECTIONS * WIDTH, UNIT) + unit[None, :], own, 0, eviction_policy="evict_first")
    under, over, beside = g, g, g
    if READS_BELOW:
        under = gl.load(below + _at(cell, OF_CELL, UNIT) + unit[None, :], own, 0, eviction_policy="evict_first")
    there = (unit < (WIDTH + 7) // 8 * 8)[None, :]
    if READS_UP:
        place = states + _at(cell - down, N_DIRECTIONS * INNER, UNIT) + unit[None, :]
        over = gl.load(place, _as(has_up, UNIT) & there, 0)
    if READS_LEFT:
        place = states + _at(cell - right, N_DIRECTIONS * INNER, UNIT) + unit[None, :]
        beside = gl.load(place, _as(has_left, UNIT) & there, 0)
    return values, g, under, over, beside


@gluon.jit(do_not_specialize=_SIZES)
def backward_kernel(
    grad,
    gates,
    states,
    below,
    recurrent,
    lengths,
    owed,
    grad_projected,
    grad_below,
    neighbours,
    n_batch,
    n_words,
    n_groups,
    n_lanes,
    n_rounds,
    n_tiles,
    WIDTH: gl.constexpr,
    OF_CELL: gl.constexpr,
    N_DIRECTIONS: gl.constexpr,
    SOUTH: gl.constexpr,
    EAST: gl.constexpr,
    N_LAMBDAS: gl.constexpr,
    BELOW: gl.constexpr,
    UP: gl.constexpr,
    LEFT: gl.constexpr,
    READS_BELOW: gl.constexpr,
    READS_UP: gl.constexpr,
    READS_LEFT: gl.constexpr,
    UNITS: gl.constexpr,
    INNER: gl.constexpr,
    ONE_TILE: gl.constexpr,
    ROWS: gl.constexpr,
    SENTENCES: gl.constexpr,
):
    """Fill the projections' gradients, the gradients that `below` gets by way of λ, and the neighbours' states.

    What a row owes its neighbours is left for the next step in `owed`, zero before the scan: a summand for each slice
    of the units, through the recurrent weights, and one by way of λ. There is room for two steps.
    """
    N_SLICES: gl.constexpr = (WIDTH + UNITS - 1) // UNITS
    N_SIDES: gl.constexpr = READS_UP + READS_LEFT
    OF_VALUES: gl.constexpr = N_DIRECTIONS * WIDTH * 8
    OF_SEEN: gl.constexpr = N_DIRECTIONS * N_SIDES * WIDTH
    OWED: gl.constexpr = N_SIDES * INNER
    FULL: gl.constexpr = (WIDTH + 7) // 8 * 8
    dtype: gl.constexpr = states.dtype.element_ty
    UNIT: gl.constexpr = _layout(ROWS, UNITS, 1)
    VALUE: gl.constexpr = _layout(ROWS, UNITS, 8)
    PRODUCT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 2], [16, OWED // 2, 16])
    OUT: gl.constexpr = _layout_of_owed(ROWS, OWED)
    ROW: gl.constexpr = gl.SliceLayout(1, UNIT)
    WIDE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, UNITS * 4], dtype)
    NARROW: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, UNITS * 2], dtype)
    OF_FOUR: gl.constexpr = gl.NVMMASharedLayout.get_default_for([UNITS * 4, OWED], dtype)
    OF_TWO: gl.constexpr = gl.NVMMASharedLayout.get_default_for([UNITS * 2, OWED], dtype)

    program = gl.program_id(0)
    this_slice = program % N_SLICES
    first_unit = this_slice * UNITS
    program = program // N_SLICES
    first = program % n_groups * (n_lanes * n_rounds)
    direction = program // n_groups
    south = ((SOUTH >> direction) & 1) > 0
    east = ((EAST >> direction) & 1) > 0
    down = gl.where(south, -n_words, n_words)
    right = gl.where(east, -1, 1)
    recurrent += direction * (N_SIDES * WIDTH * WIDTH * 8)
    below += direction * WIDTH
    grad_below += direction * WIDTH
    grad += direction * WIDTH
    gates += direction * (WIDTH * 8)
    grad_projected += direction * (WIDTH * 8)
    states += direction * INNER
    neighbours += direction * (N_SIDES * WIDTH)
    n_rows = n_tiles * ROWS
    owed += program.to(gl.int64) * (2 * (N_SLICES + 1) * OWED) * n_rows

    four = gl.allocate_shared_memory(dtype, [ROWS, UNITS * 4], WIDE)
    two = gl.allocate_shared_memory(dtype, [ROWS, UNITS * 2], NARROW)
    of_four = gl.allocate_shared_memory(
        dtype, [UNITS * 4, OWED], OF_FOUR, _backward_weights(recurrent, first_unit, WIDTH, N_SIDES, UNITS, INNER, 4, 0)
    )
    of_two = gl.allocate_shared_memory(
        dtype, [UNITS * 2, OWED], OF_TWO, _backward_weights(recurrent, first_unit, WIDTH, N_SIDES, UNITS, INNER, 2, 4)
    )
    fence_async_shared()

    n_steps = _n_steps(lengths, first, n_batch, n_words, n_lanes, n_rounds, SENTENCES)
    unit = first_unit + gl.arange(0, UNITS, layout=gl.SliceLayout(0, UNIT))
    own = (unit < WIDTH)[None, :]
    written = (unit < FULL)[None, :]
    number = gl.arange(0, UNITS * 8, layout=gl.SliceLayout(0, VALUE))
    of_value = first_unit + number // 8
    value = _place(of_value, WIDTH) * 8 + number % 8
    own_values = (of_value < WIDTH)[None, :]
    column_out = gl.arange(0, OWED, layout=gl.SliceLayout(0, OUT))
    wanted_out = (column_out % INNER < FULL)[None, :]
    of_warps = gl.allocate_shared_memory(gl.uint32, [8], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    # Where rows have gaps, what they wrote before would carry a tag that is due again.
    always = n_rounds > 1

    lane, i = _slots(0, n_words, n_lanes, ROWS, ROW)
    a_round = (n_steps - 1) // n_words
    step = n_steps - 1 - a_round * n_words
    n_now = _words(lengths, first, a_round, lane, i, n_batch, n_words, n_lanes, n_rounds)
    n_before = _words(lengths, first, a_round - 1, lane, i, n_batch, n_words, n_lanes, n_rounds)
    n_earlier = _words(lengths, first, a_round - 2, lane, i, n_batch, n_words, n_lanes, n_rounds)
    tile = 0
    done = 0
    cell, column, n, is_here = _cells(lane, i, a_round, step, n_now, n_before, first, n_words, n_lanes, south, east)
    values, new_grad, under, over, beside = _ask(
        grad,
        gates,
        states,
        below,
        cell,
        is_here,
        is_here & (i > 0),
        is_here & (column > 0),
        down,
        right,
        unit,
        of_value,
        value,
        WIDTH,
        OF_CELL,
        INNER,
        N_DIRECTIONS,
        READS_BELOW,
        READS_UP,
        READS_LEFT,
        UNIT,
        VALUE,
    )
    # With several tiles, what the next turn is owed was mostly written a turn before this one.
    EARLY: gl.constexpr = not ONE_TILE and UNITS < 64
    HALF: gl.constexpr = 2 if UNITS == 16 else UNITS // 2
    owing = gl.zeros((ROWS, UNITS), gl.float32, UNIT)
    missing = gl.zeros((ROWS, UNITS), gl.int32, UNIT)
    while done < n_steps:
        here = _as(is_here, UNIT) & own
        slot = tile * ROWS + gl.arange(0, ROWS, layout=ROW)
        late = True
        if EARLY:
            late = _most(missing.to(gl.uint32, bitcast=True), of_warps, ROWS, UNITS, HALF) > 0
        while late:
            owing, missing = _owing(
                owed,
                done,
                tile,
                is_here,
                i,
                column,
                n,
                unit,
                n_rows,
                WIDTH,
                INNER,
                N_SLICES,
                READS_UP,
                READS_LEFT,
                ROWS,
            )
            late = _most(missing.to(gl.uint32, bitcast=True), of_warps, ROWS, UNITS, HALF) > 0
        grad_state = new_grad.to(gl.float32) + owing

        r, z, l_1, l_2, l_3, v, new = _split(values, ROWS, UNITS, UNIT)
        of_below = _share(l_1, l_2, l_3, BELOW, N_LAMBDAS)
        of_up = _share(l_1, l_2, l_3, UP, N_LAMBDAS)
        of_left = _share(l_1, l_2, l_3, LEFT, N_LAMBDAS)
        in_below = gl.zeros_like(new)
        in_up = gl.zeros_like(new)
        in_left = gl.zeros_like(new)
        if READS_BELOW:
            in_below = under.to(gl.float32)
        if READS_UP:
            in_up = over.to(gl.float32)
        if READS_LEFT:
            in_left = beside.to(gl.float32)
        mixed = of_below * in_below + of_up * in_up + of_left * in_left
        g_mixed = grad_state * (1 - z)
        g_u = grad_state * z * (1 - new * new)
        g_r = (g_u * v * r * (1 - r)).to(dtype)
        g_z = (g_mixed * z * (new - mixed)).to(dtype)
        g_v = (g_u * r).to(dtype)
        # Through the softmax of three slots and the sigmoid of two alike: λ (state − mixture).
        zero = gl.zeros_like(g_v)
        g_1, g_2, g_3 = zero, zero, zero
        if N_LAMBDAS > 0:
            slot_1 = in_below if BELOW == 0 else (in_up if UP == 0 else in_left)
            g_1 = (g_mixed * l_1 * (slot_1 - mixed)).to(dtype)
        if N_LAMBDAS == 3:
            g_2 = (g_mixed * l_2 * (in_up - mixed)).to(dtype)
            g_3 = (g_mixed * l_3 * (in_left - mixed)).to(dtype)
        four.store(gl.reshape(gl.join(gl.join(g_r, g_1), gl.join(g_z, g_2)), (ROWS, UNITS * 4)))
        two.store(gl.reshape(gl.join(g_3, g_v), (ROWS, UNITS * 2)))
        fence_async_shared()
        gl.thread_barrier()
        total = gl.zeros((ROWS, OWED), gl.float32, PRODUCT)
        total = warpgroup_mma(four, of_four, total, use_acc=False, is_async=True)
        total = warpgroup_mma(two, of_two, total, is_async=True)

        total = warpgroup_mma_wait(0, deps=(total,))
        new_tag = done % 3 + 1
        now = done % 2 * n_rows
        ordered = gl.permute(gl.reshape(total, (ROWS, OWED // 16, 2, 4, 2)), (0, 1, 3, 2, 4))
        ordered = gl.convert_layout(gl.reshape(ordered, (ROWS, OWED)), OUT, assert_trivial=True)
        by_slice = now * (N_SLICES + 1) + this_slice * n_rows + slot
        gl.store(
            owed + _at(by_slice, OWED, OUT) + column_out[None, :],
            _tagged(ordered, new_tag),
            _as(is_here | always, OUT) & wanted_out,
        )
        due = owed + _at(now * (N_SLICES + 1) + N_SLICES * n_rows + slot, OWED, UNIT) + unit[None, :]
        owes = _as(is_here | always, UNIT) & written
        if READS_UP:
            gl.store(due, _tagged(g_mixed * of_up, new_tag), owes)
        if READS_LEFT:
            gl.store(due + READS_UP * INNER, _tagged(g_mixed * of_left, new_tag), owes)

        at, was_here, was_over, was_beside = cell, is_here, over, beside
        tile += 1
        if tile == n_tiles:
            tile = 0
            done += 1
            step -= 1
            if step < 0:
                step = n_words - 1
                a_round -= 1
                if ONE_TILE:
                    n_now = n_before
                    n_before = n_earlier
                    n_earlier = _words(lengths, first, a_round - 2, lane, i, n_batch, n_words, n_lanes, n_rounds)
        if not ONE_TILE:
            lane, i = _slots(tile, n_words, n_lanes, ROWS, ROW)
            n_now = _words(lengths, first, a_round, lane, i, n_batch, n_words, n_lanes, n_rounds)
            n_before = _words(lengths, first, a_round - 1, lane, i, n_batch, n_words, n_lanes, n_rounds)
        cell, column, n, is_here = _cells(lane, i, a_round, step, n_now, n_before, first, n_words, n_lanes, south, east)
        is_here = is_here & (done < n_steps)
        values, new_grad, under, over, beside = _ask(
            grad,
            gates,
            states,
            below,
            cell,
            is_here,
            is_here & (i > 0),
            is_here & (column > 0),
            down,
            right,
            unit,
            of_value,
            value,
            WIDTH,
            OF_CELL,
            INNER,
            N_DIRECTIONS,
            READS_BELOW,
            READS_UP,
            READS_LEFT,
            UNIT,
            VALUE,
        )
        if EARLY:
            owing, missing = _owing(
                owed,
                done,
                tile,
                is_here,
                i,
                column,
                n,
                unit,
                n_rows,
                WIDTH,
                INNER,
                N_SLICES,
                READS_UP,
                READS_LEFT,
                ROWS,
            )

        opened = _join(g_r, g_z, g_1, g_2, g_3, g_v, g_u.to(dtype), zero, ROWS, UNITS, VALUE)
        wanted_values = _as(was_here, VALUE) & own_values
        gl.store(
            grad_projected + _at(at, OF_VALUES, VALUE) + value[None, :], opened, wanted_values, cache_modifier=".cs"
        )
        if READS_BELOW:
            gl.store(
                grad_below + _at(at, OF_CELL, UNIT) + unit[None, :],
                (g_mixed * of_below).to(dtype),
                here,
                cache_modifier=".cs",
            )
        seen = neighbours + _at(at, OF_SEEN, UNIT) + unit[None, :]
        if READS_UP:
            gl.store(seen, was_over, here, cache_modifier=".cs")
        if READS_LEFT:
            gl.store(seen + READS_UP * WIDTH, was_beside, here, cache_modifier=".cs")
