from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relatum.data.formats.concepts import by_starts, mention_pairs
from relatum.types import Entity, Span

MENTIONS = st.builds(
    lambda start, label: Entity(Span(start, start + 2), label), st.integers(0, 30), st.sampled_from("XY")
)
GROUPS = st.lists(MENTIONS, min_size=1, max_size=6, unique=True)


def distance(pair: tuple[Entity, Entity]) -> int:
    return abs(pair[0].span.start - pair[1].span.start)


@given(GROUPS, GROUPS, st.sets(st.integers(0, 31), max_size=4), st.sets(st.integers(0, 4), max_size=2))
def test_relation_of_concepts_holds_between_the_nearest_mentions(
    heads: list[Entity], tails: list[Entity], borders: set[int], evidence: set[int]
) -> None:
    sentence_of = by_starts([0, *sorted(borders - {0})])
    found = mention_pairs(heads, tails, sentence_of, evidence)
    pairs = [(head, tail) for head in heads for tail in tails if head != tail]
    together: dict[int, list[tuple[Entity, Entity]]] = {}
    for pair in pairs:
        number = sentence_of(pair[0])
        if number == sentence_of(pair[1]) and (not evidence or number in evidence):
            together.setdefault(number, []).append(pair)
    if together:
        assert found == [min(together[number], key=distance) for number in sorted(together)]
    else:
        apart = [pair for pair in pairs if sentence_of(pair[0]) != sentence_of(pair[1])] or pairs
        assert len(found) == bool(apart)
        assert all(pair in apart and distance(pair) == min(map(distance, apart)) for pair in found)
