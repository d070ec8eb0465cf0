#!/usr/bin/env bash
# Compiles the workspace for 64-bit Arm processors on Linux, and runs tests and a small run of it under qemu, on a machine of x86-64.
# qemu shows that results are right. It says nothing about speed.
#
#   scripts/aarch64.sh [short|whole]     short by default
#
#   short  the programs; the tests of products, attention and quantised weights of spag-ops
#   whole  the programs; all tests of PACKAGES (spag-game spag-rewards spag-ops spag-model), and a run of a few games and steps with the
#          kernels of NEON and with the portable ones, whose reports and weights must be the same
#
# The compiler, the standard library for Arm and qemu are those of Debian's unstable suite, in target/aarch64/root, a folder that is made
# once, with debootstrap, as root. MIRROR is the address of a Debian archive; by default it is that of this machine's apt. Crates
# are shared with this machine's cargo.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=target/aarch64 root=target/aarch64/root
packages=(rustc cargo libstd-rust-dev:arm64 gcc libc6-dev gcc-aarch64-linux-gnu g++-aarch64-linux-gnu
  libc6-dev-arm64-cross qemu-user git procps)

make_root() {
  command -v debootstrap >/dev/null || { echo "debootstrap is not installed" >&2; exit 1; }
  local mirror="${MIRROR:-$(apt-get indextargets --format '$(SITE)' | grep -m1 '/debian/*$')}"
  rm -rf --one-file-system $root.new
  mkdir -p $folder
  debootstrap --variant=minbase --include=ca-certificates unstable $root.new "$mirror" >/dev/null
  # An archive that is copied seldom is older than its lists of packages may be.
  echo 'Acquire::Check-Valid-Until "false";' >$root.new/etc/apt/apt.conf.d/90valid
  chroot $root.new sh -ec 'export DEBIAN_FRONTEND=noninteractive
    dpkg --add-architecture arm64
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    apt-get clean' sh "${packages[@]}"
  mkdir -p $root.new/spag $root.new/root/.cargo/registry
  mv $root.new $root
}

# Runs a command of a shell in the folder, where the repository is /spag. Linux executes programs for Arm by qemu there, and only there:
# what is mounted and registered belongs to a namespace, which ends with the command.
inside() {
  unshare --user --map-root-user --mount --pid --fork --kill-child bash -euc '
    mount --bind . "$1/spag"
    mount --bind "$2" "$1/root/.cargo/registry"
    mount --rbind /dev "$1/dev"
    mount -t proc proc "$1/proc"
    mount -t binfmt_misc binfmt_misc "$1/proc/sys/fs/binfmt_misc" || {
      echo "Linux before 6.7 registers no programs for a namespace: qemu cannot be used" >&2
      exit 1
    }
    # Without F, the interpreter is that of the folder.
    sed "s/:[A-Z]*$/:P/" "$1/usr/share/qemu/binfmt.d/qemu-aarch64.conf" >"$1/proc/sys/fs/binfmt_misc/register"
    exec chroot "$1" env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 \
      CARGO_TARGET_DIR=/spag/target/aarch64/build CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu CARGO_NET_OFFLINE=true \
      CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc OBJDUMP=aarch64-linux-gnu-objdump \
      bash -euc "cd /spag; $3"
  ' bash $root "${CARGO_HOME:-$HOME/.cargo}/registry" "$1"
}

# Runs and prints its seconds.
step() {
  printf '\n== %s\n' "$1"
  local start=$SECONDS
  inside "$1"
  printf '== %d s\n' $((SECONDS - start))
}

form="${1:-short}"
[[ $form == short || $form == whole ]] || { echo "expected short or whole, not $form" >&2; exit 2; }
[[ -d $root ]] || make_root
cargo fetch --quiet --locked

# One set of packages for all steps, so that dependencies are compiled with one set of features. The program has all other crates.
members=""
for name in spag-game spag-rewards spag-ops spag-model spag-bin; do members+=" -p $name"; done
step "cargo build --release --locked$members --bins --tests"
if [[ $form == short ]]; then
  step "cargo test --release --locked$members --lib -- product:: quantised:: attention simd"
  exit
fi
# Under qemu a program that does not exist seems to start and fail, which those tests that look for nvcc do not expect. Kernels of CUDA in
# their emulator, under another, would take an hour and show nothing of Arm.
step "cargo test --release --locked$members --lib --test it --no-fail-fast -- --skip machine_code:: --skip kernels::"

# A report ends with seconds and paths.
sed '/^\[benchmarks\]/,$d' configs/tiny.toml >$folder/run.toml
for path in neon portable; do
  rm -rf "$folder/$path"
  step "SPAG_CPU=$path target/aarch64/build/aarch64-unknown-linux-gnu/release/spag run $folder/run.toml \
    --set run_dir=$folder/$path --set epochs=1 --set imitation.games=48 --set self_play.games=24 \
    --set evaluation.games=6 --set evaluation.self_play_games=6 --set evaluation.sample_games=1 2>/dev/null"
  sed '/^Seconds per stage/,$d' "$folder/$path/report.txt" >"$folder/$path.txt"
done
diff $folder/neon.txt $folder/portable.txt
cmp $folder/{neon,portable}/spag-1/model/model.safetensors
