"""The tables of *Two are Better than One* (Wang and Lu, EMNLP 2020), with all their numbers.

A row is one entry. Rows that the paper does not have stand beside its own without published numbers.
"""

from __future__ import annotations

from relatum.lab.tables.table import (
    NER,
    PARAMETERS,
    RE,
    RE_GOLD,
    RE_STRICT,
    Published,
    Row,
    Table,
)
from relatum.scores import Average

SOURCE = "Wang and Lu, Two are Better than One (EMNLP 2020)"

_ACE05 = Published("ACE05")
_OURS = "table-sequence encoders"
_BEST = "the same, best settings found on dev"
_OF_OURS = (None, None, None)


def _main(
    corpus: str,
    section: str,
    average: Average,
    numbers: tuple[float | None, float | None, float | None],
    *,
    quoted: str = "",
    configs: tuple[str, ...] = (),
    label: str = _OURS,
) -> Row:
    """Make a row of Table 1; `quoted` names another system, which is not run."""
    ner, re, strict = numbers
    published = {"ner": ner, "re": re, "re_strict": strict}
    if quoted:
        given = {key: value for key, value in published.items() if value is not None}
        return Row(f"{quoted}, {average}", None, given, section, corpus, average=average)
    # The published macro scores are those of models that were selected by them; the presets say it of ADE alone.
    settings = ("training.selection=macro",) if average == "macro" and corpus != "ade" else ()
    return Row(f"{label}, {average}", configs, published, section, corpus, settings, average)


def _f1(ner: float, re: float) -> dict[str, float | None]:
    return {"ner": ner, "re": re}


def _layers(n: int, shared: bool, parameters: float, ner: float, re: float) -> Row:
    name = f"shared-layers-{n}" if shared else f"layers-{n}"
    configs = () if n == 3 and not shared else (f"ablations/{name}",)
    section = "shared" if shared else "not shared"
    return Row(f"L = {n}", configs, {"parameters": parameters, **_f1(ner, re)}, section)


def _encoder(label: str, name: str | None, without: dict[str, float | None], maps: bool) -> Row:
    """Make a row of Table 2: an encoder, with or without its attention maps."""
    configs = () if name is None else (f"ablations/encoder-{name}",)
    if not maps and name != "elmo":
        configs = (*configs, "ablations/without-attention-maps")
    return Row(label, configs, without, WITH_MAPS if maps else WITHOUT_MAPS)


WITHOUT_MAPS = "+ xˡ (vectors)"
WITH_MAPS = "+ xˡ + Tˡ (vectors and attention maps)"
"""The halves of Table 2."""
_UNPUBLISHED: dict[str, float | None] = {"ner": None, "re": None}

TABLE_1 = Table(
    1,
    "Main results",
    (NER, RE, RE_STRICT),
    (
        _main("ace04", "ACE04", "micro", (79.7, 48.3, 45.3), quoted="Li and Ji (2014)"),
        _main("ace04", "ACE04", "micro", (79.6, 49.3, 45.7), quoted="Katiyar and Cardie (2017)"),
        _main("ace04", "ACE04", "micro", (81.2, None, 47.1), quoted="Bekoulis et al. (2018), joint"),
        _main("ace04", "ACE04", "micro", (81.6, None, 47.5), quoted="Bekoulis et al. (2018), adversarial"),
        _main("ace04", "ACE04", "micro", (81.8, None, 48.4), quoted="Miwa and Bansal (2016)"),
        _main("ace04", "ACE04", "micro", (83.6, None, 49.4), quoted="Li et al. (2019)"),
        _main("ace04", "ACE04", "micro", (87.4, 59.7, None), quoted="Luan et al. (2019)"),
        _main("ace04", "ACE04", "micro", (88.6, 63.3, 59.6)),
        _main("ace05", "ACE05", "micro", (80.8, 52.1, 49.5), quoted="Li and Ji (2014)"),
        _main("ace05", "ACE05", "micro", (83.4, None, 55.6), quoted="Miwa and Bansal (2016)"),
        _main("ace05", "ACE05", "micro", (82.6, 55.9, 53.6), quoted="Katiyar and Cardie (2017)"),
        _main("ace05", "ACE05", "micro", (83.6, None, 57.5), quoted="Zhang et al. (2017)"),
        _main("ace05", "ACE05", "micro", (83.6, None, 59.6), quoted="Sun et al. (2018)"),
        _main("ace05", "ACE05", "micro", (84.8, None, 60.2), quoted="Li et al. (2019)"),
        _main("ace05", "ACE05", "micro", (86.0, 62.8, None), quoted="Dixit and Al-Onaizan (2019)"),
        _main("ace05", "ACE05", "micro", (88.4, 63.2, None), quoted="Luan et al. (2019)"),
        _main("ace05", "ACE05", "micro", (88.6, 63.4, None), quoted="Wadden et al. (2019)"),
        _main("ace05", "ACE05", "micro", (89.5, 67.6, 64.3)),
        _main("conll04", "CoNLL04", "micro", (80.7, None, 61.0), quoted="Miwa and Sasaki (2014)"),
        _main("conll04", "CoNLL04", "macro", (83.6, None, 62.0), quoted="Bekoulis et al. (2018), adversarial"),
        _main("conll04", "CoNLL04", "macro", (83.9, None, 62.0), quoted="Bekoulis et al. (2018), joint"),
        _main("conll04", "CoNLL04", "macro", (84.2, None, 62.3), quoted="Tran and Kavuluru (2019)"),
        _main("conll04", "CoNLL04", "macro", (86.2, None, 64.4), quoted="Nguyen and Verspoor (2019)"),
        _main("conll04", "CoNLL04", "micro", (85.6, None, 67.8), quoted="Zhang et al. (2017)"),
        _main("conll04", "CoNLL04", "micro", (87.8, None, 68.9), quoted="Li et al. (2019)"),
        _main("conll04", "CoNLL04", "micro", (88.9, None, 71.5), quoted="Eberts and Ulges (2019)"),
        _main("conll04", "CoNLL04", "macro", (86.3, None, 72.9), quoted="Eberts and Ulges (2019)"),
        _main("conll04", "CoNLL04", "micro", (90.1, 73.8, 73.6)),
        _main("conll04", "CoNLL04", "macro", (86.9, 75.8, 75.4)),
        _main("conll04", "CoNLL04", "micro", _OF_OURS, configs=("best/conll04",), label=_BEST),
        _main("ade", "ADE", "macro", (79.5, None, 63.4), quoted="Li et al. (2016)"),
        _main("ade", "ADE", "macro", (84.6, None, 71.4), quoted="Li et al. (2017)"),
        _main("ade", "ADE", "macro", (86.4, None, 74.6), quoted="Bekoulis et al. (2018), joint"),
        _main("ade", "ADE", "macro", (86.7, None, 75.5), quoted="Bekoulis et al. (2018), adversarial"),
        _main("ade", "ADE", "macro", (87.1, None, 77.3), quoted="Tran and Kavuluru (2019)"),
        _main("ade", "ADE", "macro", (89.3, None, 79.2), quoted="Eberts and Ulges (2019)"),
        _main("ade", "ADE", "macro", (89.7, 80.1, 80.1)),
        _main("ade", "ADE", "macro", _OF_OURS, configs=("best/ade",), label=_BEST),
    ),
    Published("each"),
    notes=("Macro rows are of models that were selected by their macro scores on dev, as in the paper.",),
)

TABLE_2 = Table(
    2,
    "Pre-trained language models, without and with their attention maps",
    (NER, RE),
    (
        _encoder("ELMo", "elmo", _f1(86.4, 64.3), maps=False),
        _encoder("BERT", "bert-large", _f1(87.8, 64.8), maps=False),
        _encoder("RoBERTa", "roberta-large", _f1(88.9, 66.2), maps=False),
        _encoder("ALBERT", "albert-xxlarge", _f1(89.4, 66.0), maps=False),
        _encoder("MiniLM-L6, which comes along", None, _UNPUBLISHED, maps=False),
        _encoder("gte-small", "gte-small", _UNPUBLISHED, maps=False),
        _encoder("DistilBERT-base-cased", "distilbert-base-cased", _UNPUBLISHED, maps=False),
        _encoder("MPNet-base", "mpnet-base", _UNPUBLISHED, maps=False),
        _encoder("BERT", "bert-large", _f1(88.2, 67.4), maps=True),
        _encoder("RoBERTa", "roberta-large", _f1(89.3, 67.6), maps=True),
        _encoder("ALBERT", "albert-xxlarge", _f1(89.5, 67.6), maps=True),
        _encoder("MiniLM-L6, which comes along", None, _UNPUBLISHED, maps=True),
        _encoder("gte-small", "gte-small", _UNPUBLISHED, maps=True),
        _encoder("DistilBERT-base-cased", "distilbert-base-cased", _UNPUBLISHED, maps=True),
        _encoder("MPNet-base", "mpnet-base", _UNPUBLISHED, maps=True),
    ),
    Published("ACE05", "named in each row"),
    names_encoders=True,
)

TABLE_3 = Table(
    3,
    "Ablation of the two encoders",
    (NER, RE, RE_GOLD),
    (
        Row("Default", (), {**_f1(89.5, 67.6), "re_gold": 70.4}),
        Row("w/o Relation Loss", ("ablations/without-relation-loss",), {"ner": 89.4}),
        Row("w/o Table Encoder", ("ablations/without-table-encoder",), {"ner": 88.4}),
        Row("w/o Entity Loss", ("ablations/without-entity-loss",), {"re_gold": 69.8}),
        Row("w/o Sequence Encoder", ("ablations/without-sequence-encoder",), {"re_gold": 69.2}),
        Row("w/o Bi-Interaction", ("ablations/without-interaction",), {**_f1(88.2, 66.3), "re_gold": 69.2}),
        Row("NER on diagonal", ("ablations/diagonal",), {**_f1(89.4, 67.1), "re_gold": 70.2}),
        Row(
            "NER on diagonal, w/o Sequence Encoder",
            ("ablations/diagonal-without-sequence-encoder",),
            {**_f1(88.6, 67.0), "re_gold": 70.2},
        ),
    ),
    _ACE05,
    default="default",
    notes=(
        "RE (gold): relations between the gold entities. Where a row also has RE, it is the same model, given the gold "
        "entities; the others are selected by it.",
    ),
)

TABLE_4 = Table(
    4,
    "The number of layers, with shared parameters and without",
    (PARAMETERS, NER, RE),
    (
        _layers(1, True, 2.2, 89.2, 66.0),
        _layers(2, True, 2.2, 89.5, 67.0),
        _layers(3, True, 2.2, 89.3, 67.3),
        _layers(4, True, 2.2, 89.7, 67.6),
        _layers(5, True, 2.2, 89.6, 67.6),
        _layers(1, False, 1.9, 89.2, 66.0),
        _layers(2, False, 3.2, 89.5, 67.1),
        _layers(3, False, 4.5, 89.5, 67.6),
        _layers(4, False, 5.7, 89.6, 67.7),
        _layers(5, False, 7.0, 89.6, 67.7),
    ),
    _ACE05,
    default="default",
    notes=(
        "Parameters: without word vectors and language model. They depend on the width of the encoder and on the "
        "number of types.",
    ),
)

TABLE_5 = Table(
    5,
    "Dimensions and directions of the MD-RNNs",
    (NER, RE),
    (
        Row("Unidirectional", ("ablations/unidirectional",), _f1(89.6, 66.9)),
        Row("Bidirectional (default)", (), _f1(89.5, 67.6)),
        Row("Quaddirectional", ("ablations/quaddirectional",), _f1(89.7, 67.6)),
        Row("Layer-wise only", ("ablations/layer-only",), _f1(89.3, 63.9)),
        Row("Bidirectional w/o column", ("ablations/without-column",), _f1(89.5, 67.2)),
        Row("Bidirectional w/o row", ("ablations/without-row",), _f1(89.3, 67.4)),
        Row("Bidirectional w/o layer", ("ablations/without-layer",), _f1(89.3, 66.7)),
    ),
    _ACE05,
    default="default",
)

TABLE_8 = Table(
    8,
    "Ways to learn the table representation",
    (NER, RE),
    (
        Row("layer⁺", ("ablations/layer-only",), _f1(89.3, 63.9), "MD-RNN"),
        Row("layer⁺row⁺col⁺", ("ablations/unidirectional",), _f1(89.6, 66.9), "MD-RNN"),
        Row("layer⁺row⁺col⁻", ("ablations/unidirectional-ne",), _f1(89.4, 66.3), "MD-RNN"),
        Row("layer⁺row⁻col⁻", ("ablations/unidirectional-se",), _f1(89.6, 66.9), "MD-RNN"),
        Row("layer⁺row⁻col⁺", ("ablations/unidirectional-sw",), _f1(89.4, 66.7), "MD-RNN"),
        Row("layer⁺row⁺; layer⁺row⁻", ("ablations/without-column",), _f1(89.5, 67.2), "MD-RNN"),
        Row("layer⁺col⁺; layer⁺col⁻", ("ablations/without-row",), _f1(89.3, 67.4), "MD-RNN"),
        Row("row⁺col⁺; row⁻col⁻", ("ablations/without-layer",), _f1(89.3, 66.7), "MD-RNN"),
        Row("layer⁺row⁺col⁺; layer⁺row⁻col⁻ (default)", (), _f1(89.5, 67.6), "MD-RNN"),
        Row("layer⁺row⁺col⁻; layer⁺row⁻col⁺", ("ablations/bidirectional-ne-sw",), _f1(89.7, 67.4), "MD-RNN"),
        Row("all four", ("ablations/quaddirectional",), _f1(89.7, 67.6), "MD-RNN"),
        Row("kernel size 1 × 1", ("ablations/cnn-1",), _f1(89.3, 64.7), "CNN"),
        Row("kernel size 3 × 3", ("ablations/cnn-3",), _f1(89.3, 66.2), "CNN"),
        Row("kernel size 5 × 5", ("ablations/cnn-5",), _f1(89.3, 65.8), "CNN"),
    ),
    _ACE05,
    default="default",
)

TABLE_9 = Table(
    9,
    "Table filling formulations",
    (NER, RE),
    (
        Row("lower triangle, last words, directed tags", ("ablations/lower-triangle",), _f1(89.2, 65.9)),
        Row("upper triangle, last words, directed tags", ("ablations/upper-triangle",), _f1(89.2, 65.8)),
        Row("entire table, last words, undirected tags", ("ablations/undirected-last-word",), _f1(89.4, 65.1)),
        Row("entire table, entire entities, undirected tags", ("ablations/undirected",), _f1(89.3, 65.8)),
        Row("entire table, last words, directed tags", ("ablations/last-word",), _f1(89.6, 67.1)),
        Row("entire table, entire entities, directed tags (default)", (), _f1(89.5, 67.6)),
    ),
    _ACE05,
    default="default",
)

TABLES = {table.number: table for table in (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5, TABLE_8, TABLE_9)}
