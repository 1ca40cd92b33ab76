"""The benchmarks are not installed: they are found beside the tests."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).parent.parent.parent)
if ROOT not in sys.path:
    sys.path.append(ROOT)
