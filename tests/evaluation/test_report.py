from __future__ import annotations

import json
import subprocess
import sys

import pytest

from relatum.evaluation.matching import count
from relatum.evaluation.metrics import evaluate
from relatum.evaluation.report import make_report
from relatum.evaluation.significance import bootstrap, compare
from relatum.types import Annotation, Entity, Span

GOLD = Annotation((Entity(Span(0, 1), "A"), Entity(Span(2, 3), "B")))
GOOD = [(GOLD, GOLD), (GOLD, Annotation())]
BAD = [(GOLD, Annotation()), (GOLD, Annotation(GOLD.entities[:1]))]


def test_report_of_one_system_is_its_scores() -> None:
    assert make_report([GOOD]).to_dict() == evaluate(GOOD).to_dict()


def test_report_with_resamples_adds_intervals_and_nothing_else() -> None:
    record = make_report([GOOD], n_resamples=20, seed=1).to_dict()
    assert record.pop("intervals") == bootstrap([count(*pair) for pair in GOOD], n_resamples=20, seed=1).to_dict()
    assert record == evaluate(GOOD).to_dict()


def test_report_of_two_systems_compares_them() -> None:
    report = make_report([GOOD, BAD], seed=1)
    assert report.to_dict() == {
        "a": evaluate(GOOD).to_dict(),
        "b": evaluate(BAD).to_dict(),
        "comparison": compare([count(*p) for p in GOOD], [count(*p) for p in BAD], n_resamples=1000, seed=1).to_dict(),
    }


def test_report_of_two_systems_with_resamples_has_it_all() -> None:
    record = make_report([GOOD, BAD], n_resamples=20).to_dict()
    assert record["a"]["intervals"]["resamples"] == record["comparison"]["resamples"] == 20
    assert "intervals" in record["b"]
    json.dumps(record)


@pytest.mark.parametrize("n", [0, 3])
def test_report_of_no_or_many_systems_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match=f"not {n}"):
        make_report([GOOD] * n)


def test_plain_scores_do_without_numpy() -> None:
    code = (
        "import sys; from relatum.evaluation.report import make_report; from relatum.types import Annotation; "
        "make_report([[(Annotation(), Annotation())]]); sys.exit('numpy' in sys.modules or 'rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
