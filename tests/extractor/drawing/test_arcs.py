"""Where arcs go."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from relatum.extractor.drawing.arcs import APART, LEVEL, LIFT, MOST_LINES, Arc, Box, Segment, arrange, pile

WIDTH = 400.0


def boxes_at(*places: tuple[int, float]) -> list[Box]:
    return [Box(line, left, left + 30) for line, left in places]


def test_arc_on_one_line_goes_from_its_head_to_its_tail_in_either_order() -> None:
    boxes = boxes_at((0, 0), (0, 100))
    (forward,), (back,) = (arrange(boxes, [Arc(*ends, 20)], 1, WIDTH)[0] for ends in ((0, 1), (1, 0)))
    assert (forward.begins, forward.left, forward.ends, forward.right) == ("head", 15, "tail", 115)
    assert (back.begins, back.left, back.ends, back.right) == ("tail", 15, "head", 115)


def test_longer_arc_is_above_the_shorter_ones_that_it_spans() -> None:
    boxes = boxes_at((0, 0), (0, 60), (0, 120), (0, 180))
    (segments,) = arrange(boxes, [Arc(0, 3, 10), Arc(1, 2, 10), Arc(0, 1, 10)], 1, WIDTH)
    assert {segment.arc: segment.rise for segment in segments} == {0: LEVEL, 1: 0, 2: 0}


def test_arc_is_above_the_label_that_stands_above_a_shorter_one() -> None:
    boxes = boxes_at((0, 0), (0, 60), (0, 120), (0, 180))
    (segments,) = arrange(boxes, [Arc(0, 3, 10), Arc(1, 2, 50)], 1, WIDTH)
    assert {segment.arc: (segment.rise, segment.lift) for segment in segments} == {0: (LEVEL + LIFT, 0), 1: (0, LIFT)}


def test_crossing_arcs_have_heights_of_their_own() -> None:
    boxes = boxes_at((0, 0), (0, 60), (0, 120), (0, 180))
    (segments,) = arrange(boxes, [Arc(0, 2, 10), Arc(1, 3, 10)], 1, WIDTH)
    assert sorted(segment.rise for segment in segments) == [0, LEVEL]


def test_arcs_of_an_entity_do_not_cross_at_it() -> None:
    boxes = boxes_at((0, 150), (0, 0), (0, 60), (0, 240), (0, 330))
    (segments,) = arrange(boxes, [Arc(0, other, 10) for other in (1, 2, 3, 4)], 1, WIDTH)
    at = {segment.arc: segment.right if segment.ends == "head" else segment.left for segment in segments}
    assert [at[arc] for arc in (1, 0, 3, 2)] == sorted(at.values())
    assert len(set(at.values())) == 4


def test_arc_over_several_lines_runs_off_one_edge_and_on_at_the_other() -> None:
    lines = arrange(boxes_at((0, 300), (2, 50)), [Arc(0, 1, 20)], 3, WIDTH)
    assert [(p.begins, p.ends, p.left, p.right) for segments in lines for p in segments] == [
        ("head", "edge", 315, WIDTH),
        ("edge", "edge", 0, WIDTH),
        ("edge", "tail", 0, 65),
    ]


def test_arc_over_very_many_lines_has_only_its_ends() -> None:
    far = int(MOST_LINES)
    lines = arrange(boxes_at((1, 0), (far + 2, 0)), [Arc(1, 0, 20)], far + 3, WIDTH)
    assert [line for line, segments in enumerate(lines) if segments] == [1, far + 2]


def test_arc_from_an_entity_to_itself_has_two_ends() -> None:
    ((segment,),) = arrange(boxes_at((0, 0)), [Arc(0, 0, 5)], 1, WIDTH)
    assert segment.right - segment.left >= APART
    assert {segment.begins, segment.ends} == {"head", "tail"}


def test_path_goes_up_along_and_down_and_straight_to_an_edge() -> None:
    lines = arrange(boxes_at((0, 0), (1, 100)), [Arc(0, 1, 20)], 2, WIDTH)
    assert lines[0][0].path(10, 50, 60) == "M15 50V17Q15 10 22 10H400"
    assert lines[1][0].path(10, 50, 60) == "M0 10H108Q115 10 115 17V60"


def test_boxes_that_would_cover_each_other_are_piled() -> None:
    boxes = [Box(0, 0, 30), Box(0, 20, 50), Box(0, 60, 90), Box(0, 25, 65)]
    assert pile(boxes) == 3
    assert [box.level for box in boxes] == [0, 1, 0, 2]
    assert pile([]) == 0


def apart(one: Segment, two: Segment) -> bool:
    """Whether no part of one, its label of width 40 included, is above or below a part of the other."""
    left, right = sorted((min(p.left, p.middle - 20), max(p.right, p.middle + 20)) for p in (one, two))
    return left[1] < right[0]


places = st.tuples(st.integers(0, 3), st.floats(0, WIDTH - 30))


@given(st.lists(places, min_size=2, max_size=8), st.data())
def test_segments_and_labels_never_meet_and_stay_within_the_width(
    drawn: list[tuple[int, float]], data: st.DataObject
) -> None:
    boxes = boxes_at(*drawn)
    number = st.integers(0, len(boxes) - 1)
    arcs = [Arc(h, t, 40) for h, t in data.draw(st.lists(st.tuples(number, number), max_size=10))]
    lines = arrange(boxes, arcs, 4, WIDTH)
    for segments in lines:
        for one, two in combinations(sorted(segments, key=lambda segment: segment.rise), 2):
            # Labels are 12 high, or 11 with their lower edge 3 above the arc.
            assert two.rise - 6 >= one.rise + one.lift + 6 or apart(one, two), "one label would cover the other"
        assert all(20 <= segment.middle <= WIDTH - 20 for segment in segments)
        assert all(segment.left <= segment.right for segment in segments)
    for index, arc in enumerate(arcs):
        seen = [p for segments in lines for p in segments if p.arc == index]
        assert [end for p in seen for end in (p.begins, p.ends)].count("tail") == 1
        assert len(seen) == abs(boxes[arc.head].line - boxes[arc.tail].line) + 1
