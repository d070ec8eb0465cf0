#!/usr/bin/env bash
# Pictures of all views of the pages of spag serve and spag watch, 360 and 1600 pixels wide, light and dark, for people to look at.
# The tests that make them check what the views must contain, and that nothing scrolls sideways. Needs Chromium and chromedriver.
#
#   scripts/page-pictures.sh FOLDER
set -euo pipefail
mkdir -p "${1:?the folder of the pictures}"
export SPAG_SHOTS="$(realpath "$1")"
cd "$(dirname "$0")/.."
cargo test --release --workspace --locked --test page -- --ignored --test-threads 2 at_360_and_1600_pixels
ls "$SPAG_SHOTS"
