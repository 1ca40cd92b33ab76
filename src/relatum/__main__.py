"""`python -m relatum`."""

from relatum.cli.app import run

run()
