"""The public surface, and the promise that it costs nothing to import."""

from __future__ import annotations

import subprocess
import sys

import relatum

PUBLIC = {
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
}


def test_public_names_are_exactly_these() -> None:
    assert set(relatum.__all__) == PUBLIC


def test_public_names_resolve() -> None:
    for name in PUBLIC:
        assert getattr(relatum, name) is not None


def _imported(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return set(output.split())


def test_import_relatum_loads_nothing_heavy() -> None:
    loaded = _imported("import relatum")
    assert not loaded & {"torch", "numpy", "pydantic", "typer", "rich", "spacy", "relatum.data"}


def test_command_line_help_loads_nothing_heavy() -> None:
    loaded = _imported("from relatum.cli.app import main\nassert main(['--help']) == 0")
    assert not loaded & {"torch", "numpy", "pydantic", "spacy", "relatum.config", "relatum.data"}
