#!/usr/bin/env bash
# Runs the programs and tests of a CUDA build without a GPU: against libraries that stand in for NVIDIA's (crates/spag-stand-in).
#
#   scripts/stand-in.sh libraries DIR      writes the libraries to DIR, for LD_LIBRARY_PATH
#   scripts/stand-in.sh check [--short]    builds programs and tests with the feature `cuda`, which needs a toolkit
#                                          (docs/CUDA.md), and runs them: all kernels and models against the CPU and PyTorch,
#                                          greedy games of the reference, training on one and four ranks with NCCL in every ZeRO
#                                          stage with offload, killed ranks and runs, and too little memory
#   scripts/stand-in.sh run COMMAND…       runs a command with the libraries, after `check` or `libraries target/stand-in`
#
# The build with the feature is in target/cuda, so that it does not replace the other one.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/target/stand-in

# Libraries with the names that programs are linked with. All calls are in one; the others have only the versions of symbols.
libraries() {
  local to=$1 name
  mkdir -p "$to"
  cargo build --release --locked -p spag-stand-in
  cp target/release/libspag_stand_in.so "$to/libcuda.so.1"
  ln -sf libcuda.so.1 "$to/libnccl.so.2"
  for name in libcublas.so.13 libcublasLt.so.13 libcudart.so.13 libcurand.so.10; do
    cc -shared -nostdlib -x c /dev/null -o "$to/$name" -Wl,-soname,"$name" -Wl,--version-script=<(echo "$name { };")
  done
}

# Prints name and path of each executable in cargo's messages.
executables() {
  python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["profile"]["test"]:
        print(message["manifest_path"].split("/")[-2], message["target"]["name"], message["executable"])'
}

step() {
  printf '\n== %s\n' "$1"
  local start=$SECONDS
  # From the folder of the crate, as cargo runs tests.
  (cd "$2" && LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" SPAG_PROGRAMS="$PWD/${2//[^\/]*/..}/target/cuda/release" "${@:3}") ||
    failed+=("$1")
  printf '== %d s\n' $((SECONDS - start))
}

check() {
  local short=${1:-} failed=() name target path
  declare -A kernels programs
  libraries "$folder"
  export CUDA_COMPUTE_CAP="${CUDA_COMPUTE_CAP:-80}"
  cargo build --release --locked --workspace --bins --features cuda --target-dir target/cuda
  while read -r name target path; do kernels[$name]=$path; done < <(
    cargo test --release --locked --no-run --features cuda --target-dir target/cuda --message-format json-render-diagnostics \
      -p spag-ops -p spag-model -p spag-train --test it | executables)
  # The tests of programs are of the ordinary build: they start the programs that SPAG_PROGRAMS has.
  while read -r name target path; do programs[$target]=$path; done < <(
    cargo test --release --locked --no-run --message-format json-render-diagnostics -p spag-tests --tests | executables)
  echo TODO
}

case ${1:-} in
  libraries) libraries "${2:?a folder}" ;;
  check) check "${@:2}" ;;
  run) LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "${@:2}" ;;
  *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
