#!/usr/bin/env bash
# Checks a GPU machine in one call: every kernel against its CPU version, parity with the reference implementation, then
# how fast copies, products, kernels, 7B training, 7B generation and self-play are; PyTorch beside it where it is there.
#
#   scripts/gpu-check.sh [BINARY] [--parts kernels,parity,ceilings,ops,train,decode,play,pytorch] [--json FILE] …
#
# BINARY is spag-gpu-check, built with the feature `cuda` (docs/CUDA.md); target/release/spag-gpu-check where none is
# given, and a file that ends in .gz or .zst is unpacked first. Everything after it goes to the program: --help says what
# there is. Needs a driver and the CUDA 13 libraries; those of PyTorch's wheels will do.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'gpu-check: %s\n' "$*" >&2; exit 1; }

binary=target/release/spag-gpu-check
if [[ $# -gt 0 && $1 != --* ]]; then binary=$1; shift; fi
[[ -f $binary ]] || fail "there is no $binary; build it with: cargo build --release --features cuda --bin spag-gpu-check"

unpacked=
trap '[[ -z $unpacked ]] || rm -f "$unpacked"' EXIT
case $binary in
  *.gz) unpacked=$(mktemp) && gzip -dc "$binary" >"$unpacked" ;;
  *.zst) unpacked=$(mktemp) && zstd -dcq "$binary" >"$unpacked" ;;
esac
if [[ -n $unpacked ]]; then chmod +x "$unpacked"; binary=$unpacked; fi

command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1 ||
  fail "no NVIDIA GPU here: nvidia-smi finds no driver or no device"

python=${PYTHON:-python3}
# The folders of the CUDA libraries that come with PyTorch, for what the system does not have itself.
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
