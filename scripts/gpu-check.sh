#!/usr/bin/env bash
# Checks and benchmarks a GPU machine: every kernel against its CPU version, parity with the reference implementation, and
# the speed of copies, matrix products, kernels, 7B training, generation and self-play, with PyTorch for comparison.
#
#   scripts/gpu-check.sh [BINARY] [--parts kernels,parity,ceilings,ops,train,decode,play,pytorch] [--json FILE] …
#
# BINARY is spag-gpu-check built with the feature `cuda` (docs/CUDA.md), by default target/release/spag-gpu-check. Files
# that end in .gz or .zst are unpacked first. The other arguments are passed to the program; see --help. Needs a driver and
# the CUDA 13 libraries, for which PyTorch's wheels suffice.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'gpu-check: %s\n' "$*" >&2; exit 1; }

binary=target/release/spag-gpu-check
if [[ $# -gt 0 && $1 != --* ]]; then binary=$1; shift; fi
[[ -f $binary ]] || fail "$binary is missing; build it with: cargo build --release --features cuda --bin spag-gpu-check"

unpacked=
trap '[[ -z $unpacked ]] || rm -f "$unpacked"' EXIT
case $binary in
  *.gz) unpacked=$(mktemp) && gzip -dc "$binary" >"$unpacked" ;;
  *.zst) unpacked=$(mktemp) && zstd -dcq "$binary" >"$unpacked" ;;
esac
if [[ -n $unpacked ]]; then chmod +x "$unpacked"; binary=$unpacked; fi

command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 ||
  fail "no NVIDIA GPU: nvidia-smi finds no driver or no device"

python=${PYTHON:-python3}
# CUDA libraries of PyTorch's wheels, used if the system has none.
wheels=$("$python" - 2>/dev/null <<'PY' || true
import glob, os, nvidia
print(":".join(sorted(set(p for root in nvidia.__path__ for p in glob.glob(os.path.join(root, "*", "lib"))))))
PY
)
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/cuda/lib64${wheels:+:$wheels}"
missing=$(ldd "$binary" | awk '/not found/ { print $1 }' | sort -u | paste -sd' ')
[[ -z $missing ]] ||
  fail "these libraries are missing: $missing (CUDA 13: pip install torch, or NVIDIA's packages; then LD_LIBRARY_PATH)"

"$binary" --python "$python" "$@"
