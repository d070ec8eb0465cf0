#!/usr/bin/env bash
# Checks every kernel and whole models on a GPU, and measures the kernels. The GPU's machine needs this repository, a driver and
# the CUDA 13 libraries, for which PyTorch's wheels suffice, but no Rust.
#
#   scripts/gpu-check.sh build [DIR]
#       Builds the tests and the benchmark with the feature `cuda` (docs/CUDA.md) and packs them into DIR, by default
#       target/gpu-check.
#   scripts/gpu-check.sh run [--limit SECONDS] [--blocking] FILE…
#       Runs packed files. Every test has a process of its own, so that a CUDA error or a hang costs one test, and prints a line
#       of JSON: check, result (ok, failed or timed out), seconds. --limit is the time of a test, 300 by default. --blocking
#       waits for every kernel (CUDA_LAUNCH_BLOCKING=1), so that an error names the right one. Fails if a test does.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

fail() { printf 'gpu-check: %s\n' "$*" >&2; exit 1; }

# Bytes of all packed files.
MOST=$((64 << 20))

# Prints name and path of each executable in cargo's messages: tests have the name of their package.
executables() {
  python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        name = message["target"]["name"]
        print(message["manifest_path"].split("/")[-2] if name == "it" else name, message["executable"])'
}

build() {
  local folder=${1:-target/gpu-check} packages=(spag-ops spag-model spag-train spag-benches) name file
  mkdir -p "$folder" && rm -f "$folder"/*.gz
  cargo test --release --locked --features cuda --no-run --message-format json-render-diagnostics \
    "${packages[@]/#/-p}" --test it --bench gpu | executables |
    while read -r name file; do
      strip -o "$folder/$name" "$file" && gzip -9 -f "$folder/$name"
    done
  local bytes; bytes=$(cat "$folder"/*.gz | wc -c)
  ((bytes <= MOST)) || fail "$folder has $bytes bytes, more than $MOST"
  printf 'On a machine with a GPU:\n\n  scripts/gpu-check.sh run %s\n' "$(printf '%s ' "$folder"/*.gz)"
}

# Folders of the driver's and CUDA's libraries, and of those in PyTorch's wheels, behind the folders that are set.
library_path() {
  local wheels; wheels=$("${PYTHON:-python3}" - 2>/dev/null <<'PY' || true
import glob, os, nvidia
print(":".join(sorted(set(p for root in nvidia.__path__ for p in glob.glob(os.path.join(root, "*", "lib"))))))
PY
)
  printf '%s' "${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64:/usr/local/cuda/lib64${wheels:+:$wheels}"
}

# Runs one test of an executable and prints its line.
check() {
  local name=$1 program=$2 test=$3 limit=$4 log=$2.log began=${EPOCHREALTIME/./} result=ok
  timeout --kill-after 10 "$limit" "$program" --exact "$test" --test-threads 1 --nocapture >"$log" 2>&1 </dev/null ||
    case $? in 124 | 137) result='timed out' ;; *) result=failed ;; esac
  local ms=$(((${EPOCHREALTIME/./} - began) / 1000))
  printf '{"check": "%s %s", "result": "%s", "seconds": %d.%03d}\n' "$name" "$test" "$result" $((ms / 1000)) $((ms % 1000))
  [[ $result == ok ]] || { tail -n 40 "$log" >&2; return 1; }
}

run() {
  local limit=300 folder file name program missing test tests failed=0
  while [[ $# -gt 0 && $1 == --* ]]; do
    case $1 in
      --limit) limit=${2:?--limit needs a number of seconds}; shift 2 ;;
      --blocking) export CUDA_LAUNCH_BLOCKING=1; shift ;;
      *) fail "unknown flag $1" ;;
    esac
  done
  [[ $# -gt 0 ]] || fail "which files? scripts/gpu-check.sh build writes them"
  nvidia-smi -L >/dev/null 2>&1 || fail "no NVIDIA GPU: nvidia-smi finds no driver or no device"
  LD_LIBRARY_PATH=$(library_path)
  export LD_LIBRARY_PATH SPAG_ROOT=$PWD
  folder=$(mktemp -d)
  # shellcheck disable=SC2064 # The folder of now.
  trap "rm -rf '$folder'" EXIT
  for file in "$@"; do
    name=$(basename "$file" .gz) program=$folder/$name
    gzip -dc "$file" >"$program" && chmod +x "$program"
    missing=$(ldd "$program" | awk '/not found/ { print $1 }' | sort -u | paste -sd' ')
    [[ -z $missing ]] ||
      fail "$name: libraries are missing: $missing (CUDA 13: pip install torch, or NVIDIA's packages; then LD_LIBRARY_PATH)"
    if [[ $name == gpu ]]; then
      "$program" --bench || failed=1
      continue
    fi
    tests=$("$program" kernels:: --list --format terse | sed -n 's/: test$//p')
    [[ -n $tests ]] || fail "$name has no tests of kernels"
    for test in $tests; do
      check "$name" "$program" "$test" "$limit" || failed=1
    done
  done
  return $failed
}

case ${1:-} in
  build | run) "$@" ;;
  *) fail "expected build or run; the head of $0 describes both" ;;
esac
