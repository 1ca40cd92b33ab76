"""Make a small copy of a Hugging Face BERT for shipping: half precision, without the pooler.

python scripts/shrink_encoder.py SOURCE_FOLDER TARGET_FOLDER
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from relatum.encoders.hashing import weights_hash

_WEIGHTS = "model.safetensors"
_LEFT_OUT = ("pooler.", "position_ids", "cls.")


def shrink(source: Path, target: Path) -> None:
    """Write the small copy; a value that half precision cannot hold is an error."""
    target.mkdir(parents=True, exist_ok=True)
    small = {}
    for name, value in load_file(source / _WEIGHTS).items():
        if not any(part in name for part in _LEFT_OUT):
            small[name] = value.half()
            if not bool(torch.isfinite(small[name]).all()):
                raise SystemExit(f"{name} has values beyond half precision")
    save_file(small, target / _WEIGHTS, {"format": "pt"})
    (target / _WEIGHTS).chmod(0o644)  # the library makes it readable by its owner only
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config.pop("torch_dtype", None)
    config["dtype"] = "float16"
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    shrink(arguments.source, arguments.target)
    for folder in (arguments.source, arguments.target):
        size = (folder / _WEIGHTS).stat().st_size
        print(f"{folder / _WEIGHTS}: {size} bytes, sha256 {weights_hash(folder)}")


if __name__ == "__main__":
    main()
