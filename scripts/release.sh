#!/usr/bin/env bash
# Makes an archive of a release and its checksum: FOLDER/spag-VERSION-NAME.tar.gz and .sha256.
#
#   scripts/release.sh FOLDER NAME [CARGO_OPTION...]      for example: scripts/release.sh dist x86_64-linux
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?"usage: scripts/release.sh FOLDER NAME [CARGO_OPTION...]"} name=${2:?"no NAME"}
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
if [[ ${GITHUB_REF_TYPE:-} == tag && ${GITHUB_REF_NAME:-} != "v$version" ]]; then
  echo "FAILED: the tag is $GITHUB_REF_NAME, the version of Cargo.toml $version" >&2
  exit 1
fi
archive=spag-$version-$name
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/release-files.sh "$work/$archive" "${@:3}"
# What the commands of the README read.
cp -r configs data docs scripts README.md LICENSE CHANGELOG.md SECURITY.md "$work/$archive/"
mkdir -p "$out"
tar --create --gzip --owner 0 --group 0 --sort name --directory "$work" --file "$out/$archive.tar.gz" "$archive"
(cd "$out" && sha256sum "$archive.tar.gz" | tee "$archive.tar.gz.sha256")
