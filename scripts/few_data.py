"""Take some sentences of CoNLL04's train part, drawn at random, with the whole dev part.

RELATUM_DATA=… python scripts/few_data.py OUT N
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from pathlib import Path


def main(out: Path, n_sentences: int) -> None:
    corpus = Path(os.environ["RELATUM_DATA"]) / "conll04"
    records = json.loads((corpus / "train.json").read_text(encoding="utf-8"))
    random.Random(0).shuffle(records)
    out.mkdir(parents=True)
    (out / "train.json").write_text(json.dumps(records[:n_sentences]) + "\n", encoding="utf-8")
    shutil.copyfile(corpus / "dev.json", out / "dev.json")


if __name__ == "__main__":
    if len(sys.argv) != 3 or "RELATUM_DATA" not in os.environ:
        sys.exit("usage: RELATUM_DATA=… python scripts/few_data.py OUT N")
    main(Path(sys.argv[1]), int(sys.argv[2]))
