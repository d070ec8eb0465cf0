#!/usr/bin/env bash
# Feeds mutated input to every parser, each for a number of seconds (3600 if none is given), two at a time.
#
#   scripts/fuzz.sh [SECONDS] [NAME]     NAME: a parser, e.g. tokenizer_json; all by default
#
# Begins at the seed SPAG_FUZZ_SEED, or else at a random one, and prints it. A failure names its seed and leaves the input in
# target/fuzz/NAME/input.
set -euo pipefail
cd "$(dirname "$0")/.."
export SPAG_FUZZ_SECONDS="${1:-3600}" SPAG_FUZZ_SEED="${SPAG_FUZZ_SEED:-$((RANDOM * 32768 + RANDOM))}"
echo "seed $SPAG_FUZZ_SEED, $SPAG_FUZZ_SECONDS seconds for each parser"
cargo test --release --workspace --locked --test fuzz -- --nocapture --test-threads 2 ${2:+"$2"}
