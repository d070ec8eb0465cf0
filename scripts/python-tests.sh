#!/usr/bin/env bash
# Tests of python/ against the program SPAG (target/release/spag) and the real packages, which are installed under target/, and of the
# wheel of crates/spag-py, which is built and installed in a new virtual environment.
#
#   scripts/python-tests.sh          the wheel, the process, TextArena and OpenEnv
#   scripts/python-tests.sh --all    also verifiers, which installs 600 MB of packages
#
# Packages that cannot be installed are named, and their tests are skipped. The exit code is 1 if a test failed.
set -uo pipefail
cd "$(dirname "$0")/.."
export SPAG="${SPAG:-$PWD/target/release/spag}"
if [[ ! -x $SPAG ]]; then
  echo "$SPAG is not there: cargo build --release --bin spag" >&2
  exit 1
fi

# openenv-core without its web interface (gradio, pandas), which its server does not need.
openenv=(fastapi==0.165.0 uvicorn==0.54.0 websockets==17.4 requests==2.34.2 pyyaml==6.0.4 fastmcp==4.2.3)
failed=0

environment() { # FOLDER: a virtual environment with the package of python/
  python3 -m venv "$1" && "$1"/bin/pip install --quiet ./python
}

packages() { # FOLDER PACKAGE...: says what cannot be installed
  "$1"/bin/pip install --quiet "${@:2}" && return
  echo "cannot be installed, NOT tested: ${*:2}" >&2
  return 1
}

tests() { # FOLDER PATTERN: verifiers needs the program uv, which lies beside Python
  PATH="$PWD/$1/bin:$PATH" "$1"/bin/python -m unittest discover -s python/tests -p "$2" || failed=1
}

# The wheel of this commit and nothing else in its environment. Its tests compare it with target/release/spag-assign-rewards.
wheel() {
  local folder=target/python-wheel
  rm -rf $folder
  if ! { python3 -m venv $folder && $folder/bin/pip install --quiet 'maturin>=1.9,<2'; }; then
    echo "maturin cannot be installed: crates/spag-py is NOT tested" >&2
    return
  fi
  { scripts/wheel.sh $folder/dist $folder/bin/python &&
    $folder/bin/pip install --quiet --no-index $folder/dist/*.whl &&
    $folder/bin/python -m unittest discover -s crates/spag-py/tests; } || failed=1
}
wheel

folder=target/python
if ! environment $folder; then
  echo "no virtual environment with pip: python/ is NOT tested" >&2
  exit $failed
fi
packages $folder textarena==0.7.4
packages $folder "${openenv[@]}" && packages $folder --no-deps openenv-core==0.3.0
for pattern in test_process.py test_textarena.py test_textarena_child.py test_textarena_play.py test_openenv.py test_openenv_serve.py; do tests $folder $pattern; done

if [[ ${1:-} == --all ]]; then
  folder=target/python-verifiers
  environment $folder && packages $folder verifiers==0.4.0 uv && tests $folder test_verifiers.py
fi
exit $failed
