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
#   mutants    small changes to spag-game and spag-rewards, one at a time, by cargo-mutants, which is compiled in target/ci: the
#              crate's tests have to fail with 95% of those that compile. MUTANTS_SHARD=K/N takes every Nth, from the Kth;
#              results are in target/mutants/mutants.out, and .cargo/mutants.toml names the changes that are left out
#   tiny       the report of configs/tiny.toml on each of CPU_PATHS (avx2), line by line against tests/fixtures/tiny-report.txt
#   reasoning  the tasks of configs/tasks/reasoning.toml against lm-evaluation-harness, whose files are put into target/lm-eval
#   reasoning-gym  the tasks of configs/tasks/reasoning-gym.toml with the right answers, by their filters and by the package, which is
#              installed in target/reasoning-gym; its rows are made twice and have to be the same bytes
#   launch-files  configs/launch/jobset.yaml and skypilot.yaml against the schemas of JobSet, Kubernetes and SkyPilot, whose packages
#              are installed in target/launch-files
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

# A model of one small layer, whose answers are short: prompts, targets and filters do not depend on it.
reasoning() {
  build || return
  local work=target/lm-eval python=target/lm-eval/venv/bin/python
  local ask=(target/release/spag eval --model "$work/model" --tasks "$work/tasks.toml" --data_dir "$work/data" --output_dir "$work/results")
  rm -rf "$work" && mkdir -p "$work" && python3 -m venv "$work/venv" &&
    "$work/venv/bin/pip" install --quiet jinja2 pyyaml regex word2number &&
    "$work/venv/bin/pip" install --quiet --no-deps lm_eval==0.4.13 &&
    "$python" scripts/reasoning-tasks.py rows "$work/data" &&
    sed 's/^max_new_tokens = .*/max_new_tokens = 24/' configs/tasks/reasoning.toml >"$work/tasks.toml" &&
    "$python" scripts/reasoning-tasks.py config "$work/config.json" &&
    target/release/spag init-model --config "$work/config.json" --tokenizer data/tiny-llama --output_dir "$work/model" &&
    "${ask[@]}" && "$python" scripts/reasoning-tasks.py answers "$work"/results/*/ && "${ask[@]}" &&
    "$python" scripts/reasoning-tasks.py compare "$work/data" "$work"/results/*/
}

# The same model, whose answers are replaced with the right ones.
reasoning-gym() {
  build || return
  local work=target/reasoning-gym python=target/reasoning-gym/venv/bin/python
  local ask=(target/release/spag eval --model "$work/model" --tasks "$work/tasks.toml" --data_dir "$work/data" --output_dir "$work/results")
  rm -rf "$work" && mkdir -p "$work" && python3 -m venv "$work/venv" &&
    "$work/venv/bin/pip" install --quiet reasoning-gym==0.1.25 &&
    "$python" scripts/reasoning-gym.py rows --output "$work/data" &&
    "$python" scripts/reasoning-gym.py rows --output "$work/again" >"$work/again.log" && diff -rq "$work/data" "$work/again" &&
    sed 's/^max_new_tokens = .*/max_new_tokens = 1/' configs/tasks/reasoning-gym.toml >"$work/tasks.toml" &&
    python3 scripts/reasoning-tasks.py config "$work/config.json" &&
    target/release/spag init-model --config "$work/config.json" --tokenizer data/tiny-llama --output_dir "$work/model" &&
    "${ask[@]}" && "$python" scripts/reasoning-gym.py answers --data "$work/data" --results "$work/results" && "${ask[@]}" &&
    "$python" scripts/reasoning-gym.py score --data "$work/data" --results "$work/results" --all_right
}

launch-files() {
  local work=target/launch-files
  rm -rf "$work" && python3 -m venv "$work" &&
    "$work/bin/pip" install --quiet kubeflow-trainer-api==2.3.0 kubernetes-validate==1.37.0 importlib_resources skypilot==0.14.1 &&
    "$work/bin/python" scripts/check-launch-files.py
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

# A change with which tests run on until the limit counts as caught.
mutants() {
  PATH="$PATH:$PWD/target/ci/bin"
  command -v cargo-mutants >/dev/null || cargo install --quiet --locked cargo-mutants@27.1.0 --root target/ci || return
  local least=95 found=target/mutants/mutants.out ended missed caught timeout unviable viable
  mkdir -p target/mutants
  CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OPT_LEVEL=1 cargo mutants -p spag-game -p spag-rewards \
    --shard "${MUTANTS_SHARD:-0/1}" --sharding round-robin --timeout-multiplier 3 --minimum-test-timeout 30 --output target/mutants
  ended=$?
  # 2 and 3: changes were missed, or ran until the limit.
  case $ended in 0 | 2 | 3) ;; *) return $ended ;; esac
  for kind in missed caught timeout unviable; do declare "$kind=$(wc -l <"$found/$kind.txt")"; done
  ((caught += timeout, viable = caught + missed))
  printf '%8s  %s\n' $viable viable $caught "caught, $timeout of them by the limit of time" $missed missed $unviable unviable
  if ((missed)); then printf '\nMissed:\n' && cat "$found/missed.txt"; fi
  ((viable && 100 * caught >= least * viable))
}

python() { build && scripts/python-tests.sh --all; }

aarch64() { scripts/aarch64.sh whole; }

cuda() { scripts/stand-in.sh check; }

# With tests, dependencies have the features that `cargo test` has compiled them with.
build() { cargo build --release --workspace --bins --examples --tests --locked; }

campaigns=(fuzz kills hostile load launchers outside api mutants tiny reasoning reasoning-gym launch-files python cuda aarch64)
if (($#)); then campaigns=("$@"); fi
failed=()
for campaign in "${campaigns[@]}"; do
  case $campaign in
    fuzz | kills | hostile | load | launchers | outside | api | mutants | tiny | reasoning | reasoning-gym | launch-files | python | cuda | aarch64) ;;
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
