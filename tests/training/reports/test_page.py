from __future__ import annotations

import json
import re
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from relatum.config import Config
from relatum.monitor import Evaluation, Monitor
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.training.monitor import Monitors
from relatum.training.reports.curves import _LEFT, Curve, _ticks, draw_curves, make_svg
from relatum.training.reports.page import make_html, make_summary
from relatum.training.result import RunResult

from ...small_results import make_scores
from ..conftest import Silent

CPU = torch.device("cpu")
VOID = {"meta", "line", "circle", "br"}


class Page(HTMLParser):
    """Checks that tags are closed, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href", "onload"} & {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, small_corpus: Path) -> Path:
    from relatum.config import load_config
    from relatum.training.corpus import load_training_data

    from ..conftest import TINY

    path, config = tmp_path_factory.mktemp("report") / "run", load_config(None, [*TINY, "training.max_cells=400"])
    data = load_training_data(small_corpus, config)
    record = RunRecord(config, str(small_corpus), None, None, "cpu", "relatum train <news> & more", data.fingerprint())
    train(data, record, path, device=CPU, monitor=Silent())
    return path


def evaluation(step: int, loss: float = 3.0, f1: float = 0.5) -> Evaluation:
    return Evaluation(step, loss, 1e-3, f1, 1.0, make_scores(f1))


def test_report_is_one_page_that_needs_nothing_else(run: Path) -> None:
    text = (run / "report.html").read_text(encoding="utf-8")
    record = json.loads((run / "result.json").read_text())
    page = Page()
    page.feed(text)
    assert not page.open
    assert text.count('<svg viewBox="0 0 440') == 2
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "prefers-color-scheme: dark" in text
    assert "relatum train <news> & more" in page.text
    for message in record["messages"]:
        assert message in page.text
    assert record["messages"]
    assert "training.max_cells = 400" in page.text
    for label in record["data"]["parts"]["train"]["relations"]:
        assert label in page.text
    assert f"{100 * record['test']['entities']['micro']['precision']:.2f}" in page.text
    assert text.count('<circle class="curve-') == 4 * len(record["history"])


def test_summary_has_data_sizes_best_step_scores_time_and_warnings(run: Path) -> None:
    text = (run / "summary.txt").read_text(encoding="utf-8")
    record = json.loads((run / "result.json").read_text())
    assert text.startswith("relatum train <news> & more\n")
    assert re.search(rf"train +{record['data']['parts']['train']['sentences']} sentences", text)
    assert f"best model: after step {record['best']['step']}, " in text
    assert f"parameters: {record['n_parameters']:,}" in text
    for part in ("dev", "test"):
        scores = [f"{100 * record[part][task]['micro']['f1']:.2f}" for task in record[part]]
        assert re.search(rf"  {part} +" + " +".join(map(re.escape, scores)) + "\n", text)
    assert re.search(r"time: \d+:\d\d:\d\d\n", text)
    assert all(f"  - {message}\n" in text for message in record["messages"])


def test_reports_are_made_from_the_result_alone(run: Path) -> None:
    result = RunResult.read(run / "result.json")
    assert make_html(result) == (run / "report.html").read_text(encoding="utf-8")
    assert make_summary(result) == (run / "summary.txt").read_text(encoding="utf-8")
    without = make_html(replace(result, test=None, messages=(), commit=None))
    assert "Scores on test" not in without
    assert "<p>Nothing.</p>" in without
    assert "nothing was said during the run" in make_summary(replace(result, messages=()))


def test_picture_of_the_curves_is_a_png(run: Path, tmp_path: Path) -> None:
    head = (run / "curves.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", head[16:]) == (1200, 480)
    draw_curves(tmp_path / "one.png", [evaluation(4)], pytest.fail)
    assert (tmp_path / "one.png").exists()


def test_picture_is_left_out_where_matplotlib_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said: list[str] = []
    draw_curves(tmp_path / "curves.png", [evaluation(4)], said.append)
    assert not (tmp_path / "curves.png").exists()
    assert said == ["curves.png is not drawn: matplotlib is not installed (pip install 'relatum[train]')"]


def test_run_without_matplotlib_says_so_in_its_report(
    start: Callable[[Config], tuple[TrainingData, RunRecord]],
    tiny: Callable[..., Config],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    data, record = start(tiny("training.steps=2"))
    monitor = Silent()
    train(data, record, tmp_path / "run", device=CPU, monitor=monitor)
    assert not (tmp_path / "run" / "curves.png").exists()
    assert "matplotlib is not installed" in monitor.said[-1]
    assert "matplotlib is not installed" in (tmp_path / "run" / "report.html").read_text()


def test_chart_has_its_points_where_they_belong() -> None:
    svg = ElementTree.fromstring(make_svg("a < b", [Curve("x", [(10, 0.0), (20, 4.0)])], mark=20))
    assert svg.get("aria-label") == "a < b"
    line = svg.find("polyline")
    assert line is not None
    (x1, y1), (x2, y2) = (tuple(map(float, point.split(","))) for point in str(line.get("points")).split())
    assert x2 - _LEFT == 2 * (x1 - _LEFT), "the axis begins at step 0"
    assert y1 > y2, "more is higher"
    mark = svg.find("line[@class='mark']")
    assert mark is not None
    assert float(str(mark.get("x1"))) == x2
    assert [note.text for note in svg.iter("title")] == ["x, step 10: 0", "x, step 20: 4"]


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [1e-9, 3e-9], [123456.0]])
def test_chart_of_any_values_can_be_read(values: list[float]) -> None:
    svg = make_svg("t", [Curve("x", list(enumerate(values, 1)))])
    ElementTree.fromstring(svg)
    assert "nan" not in svg
    assert "inf" not in svg


def test_ticks_are_round_numbers() -> None:
    assert _ticks(100.0) == [0, 20, 40, 60, 80, 100]
    assert _ticks(37.0) == [0, 10, 20, 30]
    assert _ticks(0.07) == [0, 0.02, 0.04, 0.06]
    assert _ticks(0.0) == [0]


def test_monitors_pass_on_all_and_remember_what_was_said() -> None:
    one, two = Silent(), Silent()
    both = Monitors(one, two, Monitor())
    both.say("a")
    before = ["b"]
    both.begin_with(before)
    both.say("a")
    both.say("c")
    assert before == both.messages == ["b", "a", "c"]
    both.start(3, 9)
    both.advance(4, 1.0)
    both.evaluate(evaluation(4), True)
    both.close()
    assert one.said == two.said == ["a", "a", "c"]
    assert one.steps == two.steps == [3, 4]
    assert one.evaluations == two.evaluations == [(evaluation(4), True)]
