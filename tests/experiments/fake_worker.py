"""Stands in for the process of a run, without torch: writes a result whose scores depend on row and seed.

What rows do is in the environment variable FAKE_ROWS, as row:deed pairs with commas between them.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

run = Path(sys.argv[1])
record = json.loads((run / "run.json").read_text())
seed = record["config"]["training"]["seed"]
row = next(path.name for path in run.parents if path.parent.name == "runs").rpartition("-")[0].partition("-")[2]
deeds = dict(pair.split(":") for pair in os.environ.get("FAKE_ROWS", "").split(",") if pair)
fold = int(record["fold"].rpartition(":")[2]) if record["fold"] else 0


def tell(event: str, **values: object) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def scores(f1: float) -> dict[str, object]:
    task = {average: {"precision": 0.5, "recall": 0.5, "support": 4, "f1": f1} for average in ("micro", "macro")}
    return {name: {**task, "types": {}} for name in ("entities", "relations", "relations_strict")}


stop = False


def note(*_: object) -> None:
    global stop
    stop = True


signal.signal(signal.SIGTERM, note)
with (run / "times.txt").open("a") as times:
    times.write("begun\n")
tell("start", step=0, steps=4, peak=2**20, free=2**34)
if deeds.get(row) == "fail":
    tell("failed", message=f"the moon is full over {row}")
    sys.exit(1)
if deeds.get(row) == "wait":
    parent = os.getppid()
    (run / "waits").touch()
    while not stop and os.getppid() == parent:
        time.sleep(0.01)
    sys.exit(130)
if deeds.get(row) == "tick":
    while not stop:
        tell("advance", step=1, loss=0.5)
        time.sleep(0.01)
    sys.exit(130)
f1 = len(row) / 100 + 0.02 * seed + 0.1 * fold
result = {
    "command": record["command"],
    "commit": "abc",
    "versions": {"python": "3"},
    "device": "fake",
    "seconds": 1.0,
    "seed": seed,
    "data": {"path": record["data"], "fold": record["fold"], "sha256": record["fingerprint"]},
    "n_parameters": 1_234_567,
    "best": {"step": 4, "score": f1},
    "dev": scores(f1),
    "test": scores(f1 / 2) if record["with_test"] else None,
    "config": record["config"],
}
(run / "result.json").write_text(json.dumps(result))
