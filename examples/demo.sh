#!/usr/bin/env bash
# The demonstration that `make demo` runs, on the paragraphs and the corpus beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

step() {
    printf '\n$ %s\n' "$*"
    "$@"
}

# A model is loaded once for a folder, so the paragraphs of each are put into one.
for model in news drugs; do
    mkdir "$out/$model"
    for number in 1 2 3; do
        cp "examples/paragraphs/$model-$number.txt" "$out/$model"
    done
done
(
    cd "$out"
    step relatum extract --input news --format table
    step relatum extract --model drugs --input drugs --format table
)
printf '\nA score is how sure the model is, not a promise: some of these answers are wrong, a few with a high score.\n'
printf 'The model cards say how often: src/relatum/pretrained/models/{wiki,drugs}/README.md\n'
step relatum inspect examples/news
step relatum score examples/news/test.jsonl examples/second-reader.jsonl
printf '\nTry your own: .venv/bin/relatum extract "…"\n'
