"""Time and memory of `relatum inspect` on a large JSONL file.

The memory is that of the whole process at its peak. It is measured on the file and on one a tenth its size: streaming
means that the two hardly differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GROWTH = 64
"""MiB by which the peak may differ between a file and one a tenth its size: caches that fill, and no more."""
TEXT = "Mara Ilves ({n}) works for Tarn Shipping in Oldhaven, a port on the northern coast. Nobody was hurt there."


def write_corpus(path: Path, size: int) -> int:
    """A JSONL file of about `size` bytes of different documents; the number of documents."""
    count = 0
    with path.open("w", encoding="utf-8") as out:
        while out.tell() < size:
            for _ in range(1000):
                text = TEXT.format(n=count)
                places = {word: text.index(word) for word in ("Mara Ilves", "Tarn Shipping", "Oldhaven")}
                entities = [
                    {"id": f"T{i}", "start": at, "end": at + len(word), "label": label}
                    for i, ((word, at), label) in enumerate(zip(places.items(), ("Peop", "Org", "Loc"), strict=True))
                ]
                relations = [
                    {"head": "T0", "tail": "T1", "label": "Work_For"},
                    {"head": "T1", "tail": "T2", "label": "OrgBased_In"},
                ]
                record = {"id": f"d{count}", "text": text, "entities": entities, "relations": relations}
                out.write(json.dumps(record) + "\n")
                count += 1
    return count


def inspect(path: Path, documents: int) -> tuple[float, float]:
    """Seconds and peak MiB of the command, after a check of what it counted."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "relatum", "inspect", str(path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    total = json.loads(output)["total"] if process.returncode == 0 else {}
    found = {
        name: total.get(name) for name in ("documents", "sentences", "distinct_sentences", "entities", "relations")
    }
    expected = {
        "documents": documents,
        "sentences": 2 * documents,
        "distinct_sentences": documents + 1,
        "entities": 3 * documents,
        "relations": 2 * documents,
    }
    if found != expected:
        sys.exit(f"wrong counts, so no speed is printed: found {found}, expected {expected}")
    return seconds, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=50, help="size of the file (default 50; the goal is for 1000)")
    size = parser.parse_args().megabytes * 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.jsonl"
        peaks = []
        for part in (size // 10, size):
            documents = write_corpus(path, part)
            seconds, memory = inspect(path, documents)
            peaks.append(memory)
            print(
                f"{path.stat().st_size / 1e6:,.0f} MB, {documents:,} documents: {seconds:.1f} s "
                f"({path.stat().st_size / 1e6 / seconds:.1f} MB/s), peak {memory:.0f} MiB"
            )
        if peaks[1] - peaks[0] > GROWTH:
            sys.exit(f"memory grows with the data: by more than {GROWTH} MiB from a tenth of it to all")


if __name__ == "__main__":
    main()
