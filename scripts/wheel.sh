#!/usr/bin/env bash
# Builds the wheel of crates/spag-py in the release profile of this workspace, as a release does.
#
#   scripts/wheel.sh FOLDER [PYTHON [MATURIN_OPTION...]]
#
# FOLDER gets the wheel. PYTHON is an interpreter beside which maturin is installed. Without one, a virtual environment is made under
# target/, and maturin is installed from PyPI. Options of maturin begin with -, such as --zig or --compatibility manylinux_2_28.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?"usage: scripts/wheel.sh FOLDER [PYTHON [MATURIN_OPTION...]]"}
python=${2:-target/python-maturin/bin/python}
[[ $# -ge 2 || -x $python ]] || python3 -m venv target/python-maturin
"$python" -m pip install --quiet 'maturin>=1.9,<2'
options=("${@:3}")
[[ ${#options[@]} -gt 0 ]] || options=(--compatibility linux)
"$python" -m maturin build --quiet --release --locked --manifest-path crates/spag-py/Cargo.toml --out "$out" "${options[@]}"
