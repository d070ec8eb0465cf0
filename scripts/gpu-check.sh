#!/usr/bin/env bash
# Checks every kernel and whole models on a GPU, and measures the kernels. The GPU's machine needs this repository, a driver and
# the CUDA 13 libraries, for which PyTorch's wheels suffice, but no Rust.
#
#   scripts/gpu-check.sh build [FILE]
#       Builds the tests, the benchmark and the programs with the feature `cuda` (docs/CUDA.md) and packs them into FILE, by
#       default target/gpu-check.tar.xz. Prints what `commands` does.
#   scripts/gpu-check.sh commands [FILE]
#       Prints the commands for a machine with a GPU: kernels and ceilings, sanitizers, whole models, PyTorch and vLLM beside them. None
#       runs for more than ten minutes.
#   scripts/gpu-check.sh run [--limit SECONDS] [--jobs N] [--blocking] [--sanitizer TOOL] [--logs DIR] FILE [TEST…]
#       Runs the packed tests, or those whose names contain a TEST, and then the benchmark. Every test has a process of its own, so
#       that a CUDA error or a hang costs one test, and prints a line of JSON: check, result (ok, failed or timed out), seconds.
#       --limit is the time of a test, 300 by default; --jobs the number at once, 4 by default. --blocking waits for every kernel
#       (CUDA_LAUNCH_BLOCKING=1), so that an error names the right one. --sanitizer runs each test under compute-sanitizer, with
#       memcheck, racecheck, initcheck or synccheck. --logs keeps what the tests print. Fails if a test does.
#   scripts/gpu-check.sh unpack FILE DIR
#       Unpacks the programs into DIR and prints the LD_LIBRARY_PATH that they need here.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

fail() { printf 'gpu-check: %s\n' "$*" >&2; exit 1; }

# Bytes of all packed files.
MOST=$((64 << 20))

build() {
  local file=${1:-target/gpu-check.tar.xz} packages=(spag-ops spag-model spag-train spag-benches) folder
  folder=$(mktemp -d)
  # shellcheck disable=SC2064 # The folder of now.
  trap "rm -rf '$folder'" EXIT
  {
    cargo build --release --locked --features cuda --workspace --bins --message-format json-render-diagnostics
    cargo test --release --locked --features cuda --no-run --message-format json-render-diagnostics \
      "${packages[@]/#/-p}" --test it --bench gpu
  } | python3 scripts/executables.py | while read -r name program; do strip -o "$folder/$name" "$program"; done
  # The programs have most of their code in common, which a dictionary larger than one of them finds.
  tar -C "$folder" --sort=name -c . | xz -T1 --lzma2=preset=9,dict=512MiB >"$file"
  local bytes; bytes=$(wc -c <"$file")
  ((bytes <= MOST)) || fail "$file has $bytes bytes, more than $MOST"
  printf '%s: %s bytes. In this repository on a machine with a GPU:\n\n' "$file" "$bytes"
  commands "$file"
}

# Each line is complete, for a shell of its own in the repository's folder.
commands() {
  local file=${1:-target/gpu-check.tar.xz} run='timeout 590 scripts/gpu-check.sh run --jobs 8' bin='. ./bin.env && timeout 590 bin' tool
  local memory=(attention paged_attention rms_norm row_norm head_norm squared_norm sample embedding log_prob)
  local others=(adamw bias cast gated rope matmul packed_linear quantised)
  local model='--config configs/llama2-7b/config.json --dtype bf16 --tokenizer data/tiny-llama'
  local step='--device cuda --dtype bf16 --batch 2 --seq 2048 --checkpointing --steps 3 --warmup 1'
  local torch='--device cuda:0 --dtype bfloat16' fixtures=tests/fixtures
  cat <<END
# 1. Kernels against the CPU; gradients, tokens and curves against PyTorch and the reference; the ceilings of the GPU, and each kernel's share
$run --limit 300 --logs logs $file

# 2. Sanitizers: compute-sanitizer of the toolkit on the tests of kernels
END
  for tool in memcheck racecheck initcheck synccheck; do
    printf '%s --limit 280 --sanitizer %s %s %s\n' "$run" $tool "$file" "${memory[*]/#/kernels::}"
    printf '%s --limit 280 --sanitizer %s %s %s\n' "$run" $tool "$file" "${others[*]/#/kernels::}"
  done
  cat <<END

# 3. Decode, play and train: random models of 7B, of half as many layers, which trains without offload in 80 GB, and of 135M
scripts/gpu-check.sh unpack $file bin >bin.env
sed 's/"num_hidden_layers": 32/"num_hidden_layers": 16/' configs/llama2-7b/config.json >half.json
$bin/spag init-model $model --output_dir 7b
$bin/spag init-model ${model/configs\/llama2-7b\/config.json/half.json} --output_dir half
$bin/spag bench generate --model 7b --device cuda --prompt 700 --batch 1,16,64,128
$bin/spag bench generate --model 7b --device cuda --prompt 700 --batch 1,16 --quantize q8_0
$bin/spag bench generate --model 7b --device cuda --prompt 700 --batch 1,16 --quantize q4_0
$bin/spag bench play --model 7b --device cuda --games 128 --per_device_eval_batch_size 64
$bin/spag bench train --model_name_or_path half $step --variants recompute,keep,recompute+8x500
$bin/spag bench train --model_name_or_path half $step --zero_stage 3 --simulate_ranks 8 --variants timed-links,links-in-turn,instant-links
$bin/spag init-model --config configs/smollm2-135m/config.json --dtype bf16 --output_dir small
$bin/spag bench train --model_name_or_path small --device cuda --dtype bf16 --batch 16 --seq 100 --steps 50 --warmup 5 --variants keep,recompute,keep+2x800
$bin/spag bench train --model_name_or_path half $step --threads 16 --offload_optimizer cpu
$bin/spag bench train --model_name_or_path half $step --threads 16 --offload_optimizer cpu --optim_grad_dtype bf16

# 4. Attention in PyTorch; the same steps and games in PyTorch and transformers; a training's curve against PyTorch's in f32; decoding in vLLM, where it is installed
timeout 120 python3 benches/baselines/attention.py
timeout 590 python3 benches/baselines/train_step.py half $torch --batch 2 --seq 2048 --steps 3 --warmup 1 --checkpointing
timeout 590 python3 benches/baselines/self_play.py 7b $torch --games 64 --batch 64 --turns 5 --new-tokens 48
$bin/spag-train --model_name_or_path $fixtures/tiny-llama --ref_model_name_or_path $fixtures/tiny-llama/ref --train_data_path $fixtures/training/train_items.json --train_method OfflinePO --lm_kl_coeff 0.2 --lm_sft_coeff 0.5 --learning_rate 1e-3 --num_train_epochs 1 --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --data_order sequential --device cuda --output_dir curve
timeout 590 python3 scripts/compare-with-pytorch.py curve --model $fixtures/tiny-llama --ref $fixtures/tiny-llama/ref --data $fixtures/training/train_items.json
for rows in 1 16 64 128; do timeout 140 vllm bench latency --model 7b --dtype bfloat16 --skip-tokenizer-init --disable-detokenize --max-model-len 2048 --input-len 700 --output-len 64 --batch-size \$rows --num-iters-warmup 1 --num-iters 3; done
END
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
  local logs=$1 limit=$2 program=$3 test=$4 began=${EPOCHREALTIME/./} result=ok log name
  name=$(basename "$program") log=$logs/$(basename "$program")-${test//:/-}.log
  # shellcheck disable=SC2086 # The sanitizer with its flags.
  timeout --kill-after 10 "$limit" ${SANITIZER:-} "$program" --exact "$test" --test-threads 1 --nocapture >"$log" 2>&1 </dev/null ||
    case $? in 124 | 137) result='timed out' ;; *) result=failed ;; esac
  local ms=$(((${EPOCHREALTIME/./} - began) / 1000))
  printf '{"check": "%s %s", "result": "%s", "seconds": %d.%03d}\n' "$name" "$test" "$result" $((ms / 1000)) $((ms % 1000))
  [[ $result == ok ]] || { { printf -- '--- %s %s\n' "$name" "$test"; tail -n 30 "$log"; } >&2; return 1; }
}

# Unpacks a file into a folder and sets where the loader finds the libraries.
unpack() {
  local file=$1 folder=$2 missing
  mkdir -p "$folder"
  "${PYTHON:-python3}" -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2], filter="data")' \
    "$file" "$folder"
  LD_LIBRARY_PATH=$(library_path)
  export LD_LIBRARY_PATH
  missing=$(ldd "$folder"/* | awk '/not found/ { print $1 }' | sort -u | paste -sd' ')
  [[ -z $missing ]] ||
    fail "libraries are missing: $missing (CUDA 13: pip install torch, or NVIDIA's packages; then LD_LIBRARY_PATH)"
}

run() {
  local limit=300 jobs=4 logs='' folder program failed=0
  while [[ $# -gt 0 && $1 == --* ]]; do
    case $1 in
      --limit) limit=${2:?--limit needs a number of seconds}; shift 2 ;;
      --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
      --sanitizer) export SANITIZER="compute-sanitizer --tool ${2:?--sanitizer needs a tool} --error-exitcode 9"; shift 2 ;;
      --logs) logs=${2:?--logs needs a folder}; shift 2 ;;
      --blocking) export CUDA_LAUNCH_BLOCKING=1; shift ;;
      *) fail "unknown flag $1" ;;
    esac
  done
  [[ $# -gt 0 ]] || fail "which file? scripts/gpu-check.sh build writes it"
  nvidia-smi -L >/dev/null 2>&1 || fail "no NVIDIA GPU: nvidia-smi finds no driver or no device"
  export SPAG_ROOT=$PWD
  folder=$(mktemp -d)
  # shellcheck disable=SC2064 # The folder of now.
  trap "rm -rf '$folder'" EXIT
  unpack "$1" "$folder/bin"
  shift
  logs=${logs:-$folder/logs}
  mkdir -p "$logs"
  for program in "$folder"/bin/test-*; do
    "$program" kernels:: --list --format terse | sed -n "s|^\(.*\): test$|$program \1|p" |
      grep -F "$(printf '%s\n' "${@:-::}")"
  done >"$folder/tests" || true
  [[ -s $folder/tests ]] || fail "no test of a kernel has this name"
  xargs -P "$jobs" -L 1 "$PWD/scripts/gpu-check.sh" check "$logs" "$limit" <"$folder/tests" || failed=1
  [[ $# -gt 0 ]] || "$folder/bin/gpu" --bench || failed=1
  return $failed
}

case ${1:-} in
  build | commands | run | check) "$@" ;;
  unpack) "$@" && printf 'export LD_LIBRARY_PATH=%s\n' "$LD_LIBRARY_PATH" ;;
  *) fail "expected build, commands, run or unpack; the head of $0 describes them" ;;
esac
