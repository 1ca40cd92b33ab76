#!/usr/bin/env bash
# The demonstration that `make demo` runs, on the example corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

step() {
    printf '\n$ %s\n' "$*"
    "$@"
}

step relatum inspect examples/news
step relatum convert examples/news "$out/brat" --to brat
step head -n 4 "$out/brat/test/$(basename "$(find "$out/brat/test" -name '*.ann' | sort | head -n 1)")"
step relatum split examples/news/train.jsonl --folds 5 --dev 0.15 --seed 1 --out "$out/folds"
step relatum score examples/news/test.jsonl examples/second-reader.jsonl --bootstrap 1000
