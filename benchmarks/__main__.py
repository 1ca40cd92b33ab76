"""Run every benchmark with its default settings: `python -m benchmarks`; the status is 1 if one of them fails."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    "splitting",
    "prose",
    "suggest",
    "inspect_large",
    "score",
    "md_gru",
    "step",
    "tagging",
    "extract",
    "encoders_cpu",
    "growth",
    "cold",
    "scale",
    "kills",
    "serve",
    "waiting",
    "updates",
)
"""The other modules here are parts of these."""


def main() -> int:
    failed = []
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
