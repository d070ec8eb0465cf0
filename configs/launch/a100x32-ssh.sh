#!/usr/bin/env bash
# A training stage on 4 machines of 8 × A100-40GB over ssh, without a scheduler. All machines need a shared file system,
# the programs in the PATH of a login shell, and ssh access by key.
#   HOSTS="node0 node1 node2 node3" MODEL=… DATA=… OUT=… configs/launch/a100x32-ssh.sh im
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=configs/launch/stage.sh
source "$here/stage.sh"
stage_flags "${1:-}"
read -r -a hosts <<<"${HOSTS:?the machines; rank 0 runs on the first}"

token=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
command=(spag-train "${STAGE_FLAGS[@]}" --gradient_accumulation_steps 2 --zero_stage 1 --keep_activations auto)

# Ending this script ends the connections. Ranks that lose each other end by themselves.
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT
for node in "${!hosts[@]}"; do
    launch=(spag launch --nproc_per_node 8 --nnodes "${#hosts[@]}" --node_rank "$node"
        --master_addr "${hosts[0]}" --master_port 29500 --max_restarts 3 -- "${command[@]}")
    # Sent through standard input, since all users of a machine can read arguments.
    printf '%s\n' "$token" | ssh -o BatchMode=yes "${hosts[$node]}" \
        "bash -lc $(printf '%q' "cd $(printf '%q' "$PWD") && read -r SPAG_TOKEN && export SPAG_TOKEN && exec $(printf '%q ' "${launch[@]}")")" &
    pids+=("$!")
done

for pid in "${pids[@]}"; do
    wait "$pid"
done
