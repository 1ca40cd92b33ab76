"""relatum: entities and the relations between them, extracted jointly.

The names below are the public interface. They are imported when first used, so that `import relatum` is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from relatum.kernels.waiting import shorten_waiting

if TYPE_CHECKING:
    from relatum._version import __version__
    from relatum.config import Config, load_config
    from relatum.data import load_documents
    from relatum.data.conversion import Conversion, convert
    from relatum.data.inspection import Inspection, inspect
    from relatum.data.partition import Partition, split
    from relatum.errors import ConfigError, DataError, FormatError, RelatumError, SchemaError
    from relatum.evaluation.metrics import Scores, evaluate
    from relatum.evaluation.scoring import FileScores, score
    from relatum.extractor.extractor import Extractor
    from relatum.extractor.result import Extraction
    from relatum.extractor.suggestion import Suggestions, suggest
    from relatum.graph import Edge, Evidence, KnowledgeGraph, Mention, Node
    from relatum.schema import RelationType, Schema, infer_schema
    from relatum.training.calibration import ModelCalibration, calibrate
    from relatum.training.evaluation import ModelEvaluation, evaluate_model
    from relatum.training.run import Run
    from relatum.training.runs.summary import Runs
    from relatum.training.train import resume, resume_runs, train, train_runs
    from relatum.types import (
        Annotation,
        Attribute,
        Context,
        Document,
        Entity,
        Example,
        Prediction,
        Relation,
        Sentence,
        Span,
    )

_HOME = {
    "relatum._version": ("__version__",),
    "relatum.config": ("Config", "load_config"),
    "relatum.data": ("load_documents",),
    "relatum.data.conversion": ("Conversion", "convert"),
    "relatum.data.inspection": ("Inspection", "inspect"),
    "relatum.data.partition": ("Partition", "split"),
    "relatum.errors": ("ConfigError", "DataError", "FormatError", "RelatumError", "SchemaError"),
    "relatum.evaluation.metrics": ("Scores", "evaluate"),
    "relatum.evaluation.scoring": ("FileScores", "score"),
    "relatum.extractor.extractor": ("Extractor",),
    "relatum.extractor.result": ("Extraction",),
    "relatum.extractor.suggestion": ("Suggestions", "suggest"),
    "relatum.graph": ("Edge", "Evidence", "KnowledgeGraph", "Mention", "Node"),
    "relatum.schema": ("RelationType", "Schema", "infer_schema"),
    "relatum.training.calibration": ("ModelCalibration", "calibrate"),
    "relatum.training.evaluation": ("ModelEvaluation", "evaluate_model"),
    "relatum.training.run": ("Run",),
    "relatum.training.runs.summary": ("Runs",),
    "relatum.training.train": ("resume", "resume_runs", "train", "train_runs"),
    "relatum.types": (
        "Annotation",
        "Attribute",
        "Context",
        "Document",
        "Entity",
        "Example",
        "Prediction",
        "Relation",
        "Sentence",
        "Span",
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Annotation",
    "Attribute",
    "Config",
    "ConfigError",
    "Context",
    "Conversion",
    "DataError",
    "Document",
    "Edge",
    "Entity",
    "Evidence",
    "Example",
    "Extraction",
    "Extractor",
    "FileScores",
    "FormatError",
    "Inspection",
    "KnowledgeGraph",
    "Mention",
    "ModelCalibration",
    "ModelEvaluation",
    "Node",
    "Partition",
    "Prediction",
    "Relation",
    "RelationType",
    "RelatumError",
    "Run",
    "Runs",
    "Schema",
    "SchemaError",
    "Scores",
    "Sentence",
    "Span",
    "Suggestions",
    "__version__",
    "calibrate",
    "convert",
    "evaluate",
    "evaluate_model",
    "infer_schema",
    "inspect",
    "load_config",
    "load_documents",
    "resume",
    "resume_runs",
    "score",
    "split",
    "suggest",
    "train",
    "train_runs",
]

shorten_waiting()  # before anything below imports torch


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'relatum' has no attribute {name!r}")
    try:
        value = getattr(import_module(_MODULE_OF[name]), name)
    except ModuleNotFoundError as error:
        from relatum.errors import IN_EXTRA_TORCH, MissingExtraError

        if (error.name or "").partition(".")[0] not in IN_EXTRA_TORCH:
            raise
        raise MissingExtraError(f"relatum.{name}", "torch") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
