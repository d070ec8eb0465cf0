#!/usr/bin/env bash
# Runs the programs and tests of a CUDA build without a GPU: with libraries that stand in for NVIDIA's (crates/spag-stand-in).
#
#   scripts/stand-in.sh libraries [DIR]    writes the libraries to DIR, by default target/stand-in, for LD_LIBRARY_PATH
#   scripts/stand-in.sh check [short]      builds programs and tests with the feature `cuda`, for which it needs a toolkit
#                                          (docs/CUDA.md), and runs them: greedy games, training and the loop against the CPU,
#                                          four ranks over NCCL in every ZeRO stage with offload, a killed rank, too little memory.
#                                          Without `short`, also all kernels and models against the CPU and PyTorch, and training
#                                          that is killed ten times
#   scripts/stand-in.sh run COMMAND…       runs a command with the libraries in target/stand-in
#
# The build with the feature is in target/cuda, beside the other one. The exit code is 1 if a test failed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
folder=$root/target/stand-in

# Libraries with the names that programs are linked with. All calls are in one; the others have only the versions of symbols.
libraries() {
  local to=$1 name
  mkdir -p "$to"
  cargo build --release --locked -p spag-stand-in
  # Replaced, not changed: programs may be using it.
  cp target/release/libspag_stand_in.so "$to/new" && mv "$to/new" "$to/libcuda.so.1"
  ln -sf libcuda.so.1 "$to/libnccl.so.2"
  for name in libcublas.so.13 libcublasLt.so.13 libcudart.so.13 libcurand.so.10; do
    cc -shared -nostdlib -x c /dev/null -o "$to/$name" -Wl,-soname,"$name" -Wl,--version-script=<(echo "$name { };")
  done
}

with_libraries() { LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"; }

# Runs tests in the folder of their package, as cargo does.
tests() {
  printf '\n== %s\n' "${*:2}"
  local start=$SECONDS
  (cd "$1" && SPAG_PROGRAMS=$root/target/cuda/release with_libraries "${@:2}") || failed+=("${*:2}")
  printf '== %d s\n' $((SECONDS - start))
}

check() {
  local failed=() name path list=(--release --locked --no-run --message-format json-render-diagnostics)
  declare -A of
  libraries "$folder"
  export CUDA_COMPUTE_CAP="${CUDA_COMPUTE_CAP:-80}"
  cargo build --release --locked --workspace --bins --features cuda --target-dir target/cuda
  # Tests of programs are those of the ordinary build; they start the programs in SPAG_PROGRAMS.
  while read -r name path; do of[$name]=$path; done < <(
    cargo test "${list[@]}" --workspace --test stand_in --test ranks --test runs | python3 scripts/executables.py)
  tests tests "${of[stand_in]}" --ignored
  if [[ ${1:-} != short ]]; then
    while read -r name path; do
      # Those of the sizes of a 7B model are for a GPU.
      tests "crates/${name#test-}" "$path" kernels:: --skip kernels::sizes
    done < <(cargo test "${list[@]}" --features cuda --target-dir target/cuda -p spag-ops -p spag-model -p spag-train --test it |
      python3 scripts/executables.py)
    tests tests "${of[ranks]}" --exact many_ranks::uneven_shares_match_one_process
    tests tests "${of[runs]}" --exact training_resumes::killed_ten_times_gives_the_same_bits
  fi
  if ((${#failed[@]})); then
    printf '\nFAILED:\n' >&2
    printf '  %s\n' "${failed[@]}" >&2
    exit 1
  fi
}

case ${1:-} in
  libraries) libraries "${2:-$folder}" ;;
  check) check "${2:-}" ;;
  run) with_libraries "${@:2}" ;;
  *)
    sed -n '/^# /s/^# \{0,1\}//p;/^set/q' "$0" >&2
    exit 2
    ;;
esac
