from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.errors import ConfigError, SchemaError
from relatum.schema import Schema
from relatum.tagging.sequence import (
    DISCONTINUOUS,
    NESTED,
    OVERLAPPING,
    SAME_WORDS,
    LostEntity,
    Scheme,
    SequenceLabels,
    SequenceTags,
)
from relatum.types import Entity, Span

SCHEMA = Schema(("Peop", "Loc"))
BIO = SequenceTags(SCHEMA, "bio")
BIOES = SequenceTags(SCHEMA, "bioes")


def entity(start: int, end: int, label: str = "Peop") -> Entity:
    return Entity(Span(start, end), label)


def names(tags: SequenceTags, labels: SequenceLabels) -> str:
    return " ".join(tags.names[tag] for tag in labels.tags)


def decode(tags: SequenceTags, text: str) -> Sequence[Entity]:
    return tags.decode([tags.names.index(name) for name in text.split()])


def test_names_begin_with_outside_and_follow_the_schema() -> None:
    assert BIO.names == ("O", "B-Peop", "I-Peop", "B-Loc", "I-Loc")
    assert BIOES.names == ("O", "B-Peop", "I-Peop", "E-Peop", "S-Peop", "B-Loc", "I-Loc", "E-Loc", "S-Loc")


def test_encode_writes_bio() -> None:
    labels = BIO.encode([entity(0, 3), entity(3, 4, "Loc"), entity(5, 7, "Loc")], 8)
    assert names(BIO, labels) == "B-Peop I-Peop I-Peop B-Loc O B-Loc I-Loc O"
    assert labels.lost == ()


def test_encode_writes_bioes() -> None:
    labels = BIOES.encode([entity(0, 3), entity(3, 4, "Loc"), entity(5, 7, "Loc")], 8)
    assert names(BIOES, labels) == "B-Peop I-Peop E-Peop S-Loc O B-Loc E-Loc O"
    assert labels.lost == ()


@pytest.mark.parametrize("tags", [BIO, BIOES], ids=lambda tags: tags.scheme)
@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (entity(1, 4, "Loc"), SAME_WORDS),
        (entity(2, 3), NESTED),
        (entity(1, 5), NESTED),
        (entity(0, 2), OVERLAPPING),
        (entity(3, 5), OVERLAPPING),
        (Entity(Span(0, 6), "Loc", (Span(0, 1), Span(5, 6))), DISCONTINUOUS),
    ],
)
def test_encode_reports_what_does_not_fit_beside_the_first(tags: SequenceTags, second: Entity, reason: str) -> None:
    alone = tags.encode([entity(1, 4)], 6)
    assert tags.encode([entity(1, 4), second], 6) == SequenceLabels(alone.tags, (LostEntity(second, reason),))


def test_encode_leaves_the_gap_of_a_discontinuous_entity_to_others() -> None:
    split = Entity(Span(0, 3), "Loc", (Span(0, 1), Span(2, 3)))
    labels = BIO.encode([split, entity(1, 2)], 3)
    assert names(BIO, labels) == "O B-Peop O"
    assert labels.lost == (LostEntity(split, DISCONTINUOUS),)


def test_encode_counts_a_repeated_entity_once() -> None:
    assert BIO.encode([entity(0, 1), entity(0, 1)], 1) == SequenceLabels((1,))


def test_encode_refuses_an_entity_beyond_the_sentence() -> None:
    with pytest.raises(ValueError, match=r"Peop \[2, 4\) does not fit into a sentence of 3 words"):
        BIO.encode([entity(2, 4)], 3)


def test_encode_refuses_an_unknown_type() -> None:
    with pytest.raises(SchemaError, match="'Org' is not in the schema"):
        BIO.encode([entity(0, 1, "Org")], 3)


def test_tags_refuse_an_unknown_scheme() -> None:
    with pytest.raises(ConfigError, match=r"tagging\.scheme is 'bilou'; choose from bio, bioes"):
        SequenceTags(SCHEMA, "bilou")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B-Peop I-Peop O B-Loc", [entity(0, 2), entity(3, 4, "Loc")]),
        ("B-Peop B-Peop I-Peop", [entity(0, 1), entity(1, 3)]),
        ("B-Peop I-Loc I-Peop O", [entity(0, 3)]),  # the type is B's, whatever follows
        ("I-Peop I-Peop O I-Loc", []),  # no B, no entity
        ("I-Peop B-Loc I-Loc", [entity(1, 3, "Loc")]),
        ("B-Peop O I-Peop", [entity(0, 1)]),
        ("", []),
    ],
)
def test_decode_bio_starts_only_at_b(text: str, expected: list[Entity]) -> None:
    assert list(decode(BIO, text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B-Peop I-Peop E-Peop S-Loc", [entity(0, 3), entity(3, 4, "Loc")]),
        ("B-Peop E-Loc", [entity(0, 2)]),  # the type is B's
        ("B-Peop I-Loc E-Peop", [entity(0, 3)]),
        ("B-Peop I-Peop O E-Peop", [entity(0, 2)]),  # never closed: it ends before what cannot go on
        ("B-Peop B-Loc E-Loc", [entity(0, 1), entity(1, 3, "Loc")]),
        ("B-Peop S-Loc", [entity(0, 1), entity(1, 2, "Loc")]),
        ("B-Peop I-Peop", [entity(0, 2)]),
        ("S-Peop I-Peop E-Peop", [entity(0, 1)]),  # an S is closed at once
        ("B-Peop E-Peop I-Peop E-Peop", [entity(0, 2)]),  # and so is a B by the first E
        ("I-Peop E-Peop E-Loc", []),
    ],
)
def test_decode_bioes_starts_only_at_b_or_s(text: str, expected: list[Entity]) -> None:
    assert list(decode(BIOES, text)) == expected


@pytest.mark.parametrize("tag", [-1, 5])
def test_decode_refuses_a_tag_that_is_none(tag: int) -> None:
    with pytest.raises(ValueError, match=f"word 1 has the tag {tag}; the tags are 0 to 4"):
        BIO.decode([0, tag])


schemes = st.sampled_from(["bio", "bioes"])
some_entities = st.lists(
    st.builds(
        lambda start, width, label: entity(start, start + width, label),
        st.integers(0, 8),
        st.integers(1, 4),
        st.sampled_from(SCHEMA.entity_types),
    ),
    max_size=6,
)


@given(schemes, some_entities)
def test_decode_gives_back_all_but_what_was_reported_lost(scheme: Scheme, entities: list[Entity]) -> None:
    tags = SequenceTags(SCHEMA, scheme)
    labels = tags.encode(entities, 12)
    lost = {one.entity for one in labels.lost}
    assert set(tags.decode(labels.tags)) == set(entities) - lost
    kept = [one for one in dict.fromkeys(entities) if one not in lost]
    assert all(any(one.span.overlaps(other.span) for other in kept) for one in lost)


@given(schemes, st.data())
def test_decode_makes_sense_of_any_tags(scheme: Scheme, data: st.DataObject) -> None:
    tags = SequenceTags(SCHEMA, scheme)
    sequence = data.draw(st.lists(st.integers(0, len(tags.names) - 1), max_size=12))
    found = tags.decode(sequence)
    begins = [place for place, tag in enumerate(sequence) if tags.names[tag][0] in "BS"]
    assert [one.span.start for one in found] == begins
    assert all(one.label == tags.names[sequence[one.span.start]][2:] for one in found)
    assert all(tags.names[tag] != "O" for one in found for tag in sequence[one.span.start : one.span.end])
    again = tags.encode(found, len(sequence))
    assert again.lost == ()
    assert tags.decode(again.tags) == found
