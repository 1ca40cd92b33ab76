"""The recipe for Spark in docs/scale.md; the other recipes run with all documents."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatum.scale.batch import result_types

from ..test_docs import ROOT, blocks

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None, reason="Spark needs Java: apt-get install default-jre-headless"
)

MORE = """
from relatum.scale import SPARK_COLUMNS
assert found.count() == documents.count() > 10
assert found.where("error is not null").count() == 0
written = spark.read.parquet("job")
assert written.count() == 1, "the folder _job is not read"
assert written.schema.simpleString() == spark.createDataFrame([], SPARK_COLUMNS).schema.simpleString()
print("all is well")
"""


def test_spark_recipe_works_and_spark_reads_the_results_of_jobs(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "job" / "_job").mkdir(parents=True)
    (tmp_path / "job" / "_job" / "report.json").write_text("{}")
    pq.write_table(
        pa.table({name: pa.array([None], type) for name, type in result_types().items()}),
        tmp_path / "job" / "a.parquet",
    )
    (recipe,) = blocks(ROOT / "docs" / "scale.md", "py")
    (tmp_path / "recipe.py").write_text(recipe + MORE)
    done = subprocess.run(
        [sys.executable, "recipe.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("all is well")
    assert "Work_For" in done.stdout or "Live_In" in done.stdout or "OrgBased_In" in done.stdout
