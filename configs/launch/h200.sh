#!/usr/bin/env bash
# A training stage on one H200.
#   MODEL=Llama-2-7b-hf DATA=imitation.jsonl OUT=runs/im configs/launch/h200.sh im
#   MODEL=runs/im REF=runs/im DATA=rewarded.jsonl OUT=runs/spag-1 configs/launch/h200.sh spag
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=configs/launch/stage.sh
source "$here/stage.sh"
stage_flags "${1:-}"

# 2 × 64 samples a step are the paper's 2 × 8 × 8 GPUs.
exec spag-train "${STAGE_FLAGS[@]}" --gradient_accumulation_steps 64
