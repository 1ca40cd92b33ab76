"""Run every benchmark with its default settings: `python -m benchmarks`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
    print(f"== {path.stem}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{path.stem}", *sys.argv[1:]], check=True)
