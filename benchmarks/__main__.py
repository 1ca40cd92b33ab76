"""Run every benchmark with its default settings: `python -m benchmarks`; the status is 1 if one of them fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

failed = []
for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
    print(f"== {path.stem}", flush=True)
    if subprocess.run([sys.executable, "-m", f"benchmarks.{path.stem}"]).returncode:
        failed.append(path.stem)
sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
