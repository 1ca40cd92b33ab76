"""Stands in for the process of a run, without torch: tells events and writes a result.

Its scores depend on the seed, the fold and, where `relatum reproduce` began it, the row of the table. What it does is
in the environment variable FAKE, as pairs of a seed or a row and a deed (`0:fail,layer-only:wait`).
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
fold = int(record["fold"].rpartition(":")[2]) if record["fold"] else 0
# A row's folder is called CORPUS-ROW-HASH; that of a fold, fold-1, names no row.
named = next((path.name for path in run.parents if path.parent.name == "runs"), "")
row = named.rpartition("-")[0].partition("-")[2]
deeds = dict(pair.split(":") for pair in os.environ.get("FAKE", "").split(",") if pair)
deed = deeds.get(row or str(seed), "")
stop = False


def scores(f1: float) -> dict[str, object]:
    task = {average: {"precision": 0.5, "recall": 0.5, "support": 4, "f1": f1} for average in ("micro", "macro")}
    return {name: {**task, "types": {}} for name in ("entities", "relations", "relations_strict")}


def tell(event: str, **values: object) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def note(*_: object) -> None:
    global stop
    stop = True


parent = os.getppid()
signal.signal(signal.SIGTERM, note)
with (run / "times.txt").open("a") as times:
    times.write(f"{time.monotonic()}\n")
tell("say", message=f"hello from {run.name}")
tell("start", step=0, steps=4, peak=2**30, free=3 * 2**30)
if deed == "fail":
    print("Traceback: something", file=sys.stderr)
    tell("failed", message=f"the moon is full over {row or run.name}")
    sys.exit(1)
if deed == "die":
    print('{"event": "adv', end="", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
tell("advance", step=1, loss=2.5)
if deed in ("wait", "tick"):
    (run / "waits").touch()
    while not stop and os.getppid() == parent:
        if deed == "tick":
            tell("advance", step=1, loss=0.5)
        time.sleep(0.01)
    (run / "saved").touch()
    sys.exit(130)
f1 = 0.1 * (seed + 1) + 0.01 * fold + 0.01 * len(row)
evaluation = {"step": 4, "loss": 1.0, "learning_rate": 0.1, "score": f1, "seconds": 1.0, "dev": scores(f1)}
tell("evaluate", evaluation=evaluation, best=True, peak=2**30, free=3 * 2**30)
if deed == "slow":
    time.sleep(0.3)
result = {
    "command": record["command"],
    "commit": "abc",
    "versions": {"python": "3"},
    "device": "fake",
    "seconds": 1.0,
    "seed": seed,
    "data": {
        "path": record["data"],
        "fold": record["fold"],
        "sha256": record["fingerprint"],
        "parts": {},
        "remarks": [],
    },
    "n_parameters": 1_234_567,
    "best": {"step": 4, "score": f1},
    "dev": scores(f1),
    "test": scores(f1 / 2) if record["with_test"] else None,
    "config": record["config"],
    "history": [evaluation],
}
(run / "result.json").write_text(json.dumps(result))
with (run / "times.txt").open("a") as times:
    times.write(f"{time.monotonic()}\n")
