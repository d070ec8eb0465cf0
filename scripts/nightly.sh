#!/usr/bin/env bash
# Campaigns that take hours. The gate (.ci/run) has a short form of each.
#
#   scripts/nightly.sh [CAMPAIGN...]     all by default
#
#   fuzz       mutated input for every parser, FUZZ_SECONDS each (600)
#   kills      KILLS random kills of small runs, which are resumed and compared with whole runs (100)
#   hostile    damaged files and absurd flags for the real programs, for HOSTILE_MINUTES (60)
#   load       CLIENTS streams from one server at once (1000), beside slow, leaving and hostile clients
#   launchers  the tests with torchrun, for which PyTorch is installed in target/torch
#   outside    a crate of its own that adds a game and a rule of credit to spag-game and spag-rewards: it is built, which takes
#              about 17 s on two quiet cores, and run
#   api        the public items of spag-game and spag-rewards against those of the commit api_baseline, by cargo-semver-checks,
#              which is compiled in target/ci
#   mutants    spag-game and spag-rewards with one change each, by cargo-mutants, which is compiled in target/ci: their tests must
#              catch at least 95% of the changes that compile. MUTANTS=K/N tests the K-th of N parts (from 0); all take hours
#   tiny       the report of configs/tiny.toml on each of CPU_PATHS (avx2), line by line against tests/fixtures/tiny-report.txt
#   python     scripts/python-tests.sh --all
#   cuda       scripts/stand-in.sh check: kernels, models and programs of a CUDA build without a GPU; needs nvcc on PATH
#   aarch64    scripts/aarch64.sh whole: tests and a small run for Arm processors under qemu
#
# The first three draw their input from the seed that is printed; SEED=N repeats it. The exit code is 1 if there were faults.
set -uo pipefail
cd "$(dirname "$0")/.."
seed="${SEED:-$((RANDOM * 32768 + RANDOM))}"

fuzz() { SPAG_FUZZ_SEED="$seed" scripts/fuzz.sh "${FUZZ_SECONDS:-600}"; }

kills() { build && python3 scripts/kill_campaign.py --kills "${KILLS:-100}" --seed "$seed"; }

hostile() { build && python3 scripts/hostile_campaign.py --minutes "${HOSTILE_MINUTES:-60}" --seed "$seed"; }

load() {
  build || return
  local log server url="" ended
  log=$(mktemp)
  target/release/spag serve data/tiny-llama --port 0 >"$log" &
  server=$!
  until [[ $url ]]; do
    kill -0 "$server" || return
    sleep 0.1
    url=$(sed -n 's/^listening on //p' "$log")
  done
  target/release/examples/load "$url" --clients "${CLIENTS:-1000}" --slow 100 --leaving 500 --hostile 50
  ended=$?
  kill "$server"
  wait "$server" && return "$ended"
}

launchers() {
  python3 -m venv target/torch &&
    target/torch/bin/pip install --quiet torch &&
    TORCHRUN="$PWD/target/torch/bin/torchrun" \
      cargo test --release --workspace --locked --test ranks -- --ignored torchrun
}

# The report is the same on all processors, except for its seconds and paths, which come last.
tiny() {
  build || return
  local path folder ended=0
  for path in ${CPU_PATHS:-avx2}; do
    folder=$(mktemp -d)
    SPAG_CPU=$path target/release/spag run configs/tiny.toml --set run_dir="$folder/tiny" >"$folder/log" &&
      diff tests/fixtures/tiny-report.txt <(sed '/^Seconds per stage/,$d' "$folder/tiny/report.txt") || ended=1
    rm -rf "$folder"
  done
  return $ended
}

outside() {
  local folder root ended
  folder=$(mktemp -d) root=$PWD
  mkdir "$folder/src"
  cp crates/spag-rewards/examples/own_game.rs "$folder/src/main.rs"
  cp Cargo.lock "$folder"
  {
    printf '[package]\nname = "own-game"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\nserde_json = "1"\n'
    for name in spag-io spag-game spag-rewards; do printf '%s = { path = "%s" }\n' "$name" "$root/crates/$name"; done
  } >"$folder/Cargo.toml"
  (cd "$folder" && cargo fetch --quiet && time cargo build --quiet && target/debug/own-game)
  ended=$?
  rm -rf "$folder"
  return $ended
}

# The newest commit that changed public items of both crates on purpose.
api_baseline=525508938d5533cf0231c0609ddd6279f69936e4
api() {
  PATH="$PATH:$PWD/target/ci/bin"
  command -v cargo-semver-checks >/dev/null || cargo install --quiet --locked cargo-semver-checks --root target/ci || return
  cargo semver-checks --baseline-rev $api_baseline -p spag-game -p spag-rewards
}

mutants() {
  PATH="$PATH:$PWD/target/ci/bin"
  command -v cargo-mutants >/dev/null || cargo install --quiet --locked cargo-mutants@27.1.0 --root target/ci || return
  rm -rf target/mutants
  mkdir -p target/mutants
  # Its exit code says that any were missed; the share decides here. Tests take most of the time, so they are optimised.
  CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=0 \
    cargo mutants -p spag-game -p spag-rewards --output target/mutants --timeout 120 --colors never \
    ${MUTANTS:+--shard "$MUTANTS" --sharding round-robin} -- --lib --tests
  python3 - target/mutants/mutants.out <<'PYTHON'
import pathlib, sys
folder = pathlib.Path(sys.argv[1])
count = {kind: len((folder / f"{kind}.txt").read_text().splitlines()) for kind in ("caught", "missed", "timeout", "unviable")}
# A change that makes a test run without end is caught by it.
caught, viable = count["caught"] + count["timeout"], sum(count.values()) - count["unviable"]
print(f"{caught} of {viable} viable mutants caught ({caught / max(viable, 1):.1%}): {count}")
sys.exit(viable == 0 or caught < 0.95 * viable)
PYTHON
}

python() { build && scripts/python-tests.sh --all; }

aarch64() { scripts/aarch64.sh whole; }

cuda() { scripts/stand-in.sh check; }

# With tests, dependencies have the features that `cargo test` has compiled them with.
build() { cargo build --release --workspace --bins --examples --tests --locked; }

campaigns=(fuzz kills hostile load launchers outside api mutants tiny python cuda aarch64)
if (($#)); then campaigns=("$@"); fi
failed=()
for campaign in "${campaigns[@]}"; do
  case $campaign in
    fuzz | kills | hostile | load | launchers | outside | api | mutants | tiny | python | cuda | aarch64) ;;
    *) echo "no such campaign: $campaign" >&2; exit 2 ;;
  esac
  printf '\n== %s, seed %s\n' "$campaign" "$seed"
  start=$SECONDS
  "$campaign" || failed+=("$campaign")
  printf '== %d s\n' $((SECONDS - start))
done
if ((${#failed[@]})); then
  printf '\nFAILED: %s\n' "${failed[*]}" >&2
  exit 1
fi
