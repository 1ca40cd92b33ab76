"""Stands in for the process of a run, without torch: tells events and writes a result whose scores depend on the seed.

What it does is in the environment variable FAKE, as seed:deed pairs with commas between them.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

SCORE = {"precision": 0.5, "recall": 0.5, "support": 4}


def scores(f1: float) -> dict[str, object]:
    task = {average: {**SCORE, "f1": f1} for average in ("micro", "macro")}
    return {name: {**task, "types": {}} for name in ("entities", "relations", "relations_strict")}


def tell(event: str, **values: object) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


run = Path(sys.argv[1])
record = json.loads((run / "run.json").read_text())
seed = record["config"]["training"]["seed"]
fold = int(record["fold"].rpartition(":")[2]) if record["fold"] else 0
deeds = dict(pair.split(":") for pair in os.environ.get("FAKE", "").split(",") if pair)
deed = deeds.get(str(seed), "")
stop = False


def note(*_: object) -> None:
    global stop
    stop = True


signal.signal(signal.SIGTERM, note)
with (run / "times.txt").open("a") as times:
    times.write(f"{time.monotonic()} {os.environ.get('OMP_NUM_THREADS')}\n")
tell("say", message=f"hello from {run.name}")
tell("start", step=0, steps=4, peak=2**30, free=3 * 2**30)
if deed == "fail":
    print("Traceback: something", file=sys.stderr)
    tell("failed", message="the moon is full")
    sys.exit(1)
if deed == "die":
    print('{"event": "adv', end="", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
tell("advance", step=1, loss=2.5)
if deed == "wait":
    (run / "waits").touch()
    while not stop:
        time.sleep(0.01)
    (run / "saved").touch()
    sys.exit(130)
f1 = 0.1 * (seed + 1) + 0.01 * fold
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
    "data": {"path": record["data"], "fold": record["fold"], "sha256": record["fingerprint"]},
    "best": {"step": 4, "score": f1},
    "dev": scores(f1),
    "test": scores(f1 / 2),
    "config": record["config"],
}
(run / "result.json").write_text(json.dumps(result))
with (run / "times.txt").open("a") as times:
    times.write(f"{time.monotonic()}\n")
