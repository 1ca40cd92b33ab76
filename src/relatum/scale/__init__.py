"""Extraction from more documents than one process can read: jobs, workers, and batches for pipelines of your own."""

from relatum.scale.batch import SPARK_COLUMNS, extract_batch
from relatum.scale.job import JobReport, JobSettings
from relatum.scale.rows import Columns
from relatum.scale.run import extract_job
from relatum.scale.shards import ShardSize

__all__ = ["SPARK_COLUMNS", "Columns", "JobReport", "JobSettings", "ShardSize", "extract_batch", "extract_job"]
