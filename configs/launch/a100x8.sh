#!/usr/bin/env bash
# A training stage on one host of 8 × A100-40GB.
#   MODEL=Llama-2-7b-hf DATA=imitation.jsonl OUT=runs/im configs/launch/a100x8.sh im
#   MODEL=runs/im REF=runs/im DATA=rewarded.jsonl OUT=runs/spag-1 configs/launch/a100x8.sh spag
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=configs/launch/stage.sh
source "$here/stage.sh"
stage_flags "${1:-}"

exec spag launch --nproc_per_node 8 --max_restarts 3 -- \
    spag-train "${STAGE_FLAGS[@]}" --gradient_accumulation_steps 8 --zero_stage 3 --keep_activations auto
