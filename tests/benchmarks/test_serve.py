"""The load test refuses answers that are not the extractor's."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.serve import WrongError, refuse_if_other

ENTITY = {"id": "e1", "start": 0, "end": 4, "text": "Oslo", "label": "Loc", "score": 0.9}
ANSWER: dict[str, Any] = {"text": "Oslo", "entities": [ENTITY], "relations": []}


def test_answers_of_the_extractor_are_accepted() -> None:
    refuse_if_other({**ANSWER, "sentences": []}, ANSWER)
    refuse_if_other({**ANSWER, "entities": [{**ENTITY, "score": 0.9001}]}, ANSWER)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"entities": []}, "other entities"),
        ({"entities": [{**ENTITY, "label": "Peop"}]}, "other entities"),
        ({"entities": [{**ENTITY, "score": 0.91}]}, "other scores"),
        ({"relations": [{"head": "e1", "tail": "e1", "label": "Kin", "score": 1.0}]}, "other relations"),
    ],
)
def test_other_answers_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongError, match=message):
        refuse_if_other({**ANSWER, **changed}, ANSWER)
