#!/usr/bin/env bash
# Builds the wheels of the Python client. The same sources give the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/wheel.sh [DIRECTORY]

Builds two wheels into DIRECTORY (default dist): one for Linux on x86-64 that contains ptod and ptoctl,
and one without programs for all machines. Needs no network. `pip install` takes the first where it
fits.
USAGE
}

case ${1:-} in
  -h | --help) usage && exit 0 ;;
  -*) usage >&2 && exit 2 ;;
esac
directory=${1:-dist}

deploy/setup.sh --build
bazel build --config=release //client/python:pure_wheel //client/python:linux_wheel
bin=$(bazel info --config=release bazel-bin)
mkdir -p "$directory"
for wheel in "$bin"/client/python/ptod-*.whl; do
  install -m 644 "$wheel" "$directory/"
done
(cd "$directory" && sha256sum ptod-*.whl)
