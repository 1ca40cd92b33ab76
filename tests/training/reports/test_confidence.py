from __future__ import annotations

from dataclasses import replace

from relatum.evaluation.confidence import Calibrated, calibrate
from relatum.training.reports.confidence import confidence_section, with_confidence
from relatum.types import Annotation, Calibration, Entity, ScoreMap, Span

RIGHT, WRONG = Entity(Span(0, 2), "Peop", score=0.99), Entity(Span(3, 4), "Peop", score=0.9)
GOLD = Annotation((Entity(Span(0, 2), "Peop"),))


def made(part: str = "dev", n: int = 20) -> Calibrated:
    pairs = [(GOLD, Annotation((RIGHT, WRONG)))] * n
    return calibrate({part: pairs, "test": pairs[:1]})


def test_section_has_errors_of_all_parts_and_thresholds_of_the_first() -> None:
    own = made()
    lines = confidence_section(own)
    before, after = own.before["dev"].entities.error, own.after["dev"].entities.error
    assert before is not None
    assert after is not None
    assert lines[0] == "## Confidence"
    assert f"| dev | entities | 40 | {100 * before:.2f} | {100 * after:.2f} |" in lines
    assert "| dev | relations, strict (RE+) | 0 | – | – |" in lines
    assert any(line.startswith("| test | entities | 2 |") for line in lines)
    assert "| none | 40 | 50.00 | 100.00 | 66.67 | 0 | – | 0.00 | 0.00 |" in lines
    assert own.calibration is not None
    assert f"logit(score) / {own.calibration.entities.temperature:.3f}" in "\n".join(lines)
    assert "Of entities only 40 were found on dev: too few to calibrate well." in lines
    assert not any(line.startswith("Of entities") for line in confidence_section(made(n=25)))
    assert len([line for line in lines if line.startswith("| 0.")]) == 8


def test_section_takes_the_place_of_an_older_one() -> None:
    card = "# Model\n\n## Scores\n\nGood.\n\n## How it was made\n\n```sh\n# a command\n```\n"
    once = with_confidence(card, made())
    assert once.startswith(card)
    assert once.count("## Confidence") == 1
    assert with_confidence(once, made()) == once
    other = with_confidence(once, made("valid"))
    assert other == with_confidence(card, made("valid"))
    between = "# Model\n\n## Confidence\n\nOld.\n\n### More\n\n## Licence\n\nFree.\n"
    replaced = with_confidence(between, made())
    assert "Old." not in replaced
    assert "### More" not in replaced
    assert replaced.endswith("|\n\n## Licence\n\nFree.\n")
    assert replaced.startswith("# Model\n\n## Confidence\n\nScores are")


def test_section_names_the_maps() -> None:
    own = replace(made(), calibration=Calibration(ScoreMap(4, -0.5), ScoreMap(3, 0.25)))
    assert (
        "entities sigmoid(logit(score) / 4.000 - 0.500); relations sigmoid(logit(score) / 3.000 + 0.250)."
        in "\n".join(confidence_section(own))
    )
    plain = "\n".join(confidence_section(replace(own, calibration=Calibration())))
    assert "relations sigmoid(logit(score) / 1.000)." in plain


def test_card_that_is_empty_becomes_the_section() -> None:
    assert with_confidence("", made()) == "\n".join(confidence_section(made())) + "\n"
