#!/usr/bin/env bash
# Builds the four programs and lays out what a release and an image install: bin, and share with man pages and completions.
#
#   scripts/release-files.sh FOLDER [CARGO_OPTION...]
#
# With PROGRAMS=FOLDER the programs there are taken, and none are built.
# The processor's kernels are chosen when a program starts, so one build serves every x86-64 processor. A build with --features cuda
# does not start without a driver, and then has no man pages and completions; those of a build for CPUs are the same.
# The highest version of glibc that the programs need is printed; with MAX_GLIBC=2.28, a newer one is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?"usage: scripts/release-files.sh FOLDER [CARGO_OPTION...]"}
programs=(spag spag-play spag-train spag-assign-rewards)
if [[ -z ${PROGRAMS:-} ]]; then
  cargo build --release --locked "${programs[@]/#/--bin=}" "${@:2}"
fi
built=${PROGRAMS:-${CARGO_TARGET_DIR:-target}/release}

share=$out/share
mkdir -p "$out/bin" "$share"/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,doc/spag}
for program in "${programs[@]}"; do
  strip -o "$out/bin/$program" "$built/$program"
  if ! "$out/bin/$program" --version >/dev/null 2>&1; then
    echo "$program does not start here: no man pages and completions of it" >&2
    continue
  fi
  "$out/bin/$program" --man_pages "$share/man/man1"
  "$out/bin/$program" --completions bash >"$share/bash-completion/completions/$program"
  "$out/bin/$program" --completions zsh >"$share/zsh/site-functions/_$program"
  "$out/bin/$program" --completions fish >"$share/fish/vendor_completions.d/$program.fish"
done
cp LICENSE README.md "$share/doc/spag"

needed=$(objdump -T "$out"/bin/* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
echo "the programs need glibc ${needed#GLIBC_}"
if [[ -n ${MAX_GLIBC:-} && $(printf '%s\n' "${needed#GLIBC_}" "$MAX_GLIBC" | sort -V | tail -n 1) != "$MAX_GLIBC" ]]; then
  echo "FAILED: more than glibc $MAX_GLIBC" >&2
  exit 1
fi
