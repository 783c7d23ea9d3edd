#!/usr/bin/env bash
# Runs random clients, kills, cancellations and lost calls against a private ptod for ten minutes;
# see tests/soak/README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/soak.sh [--seconds=600] [--clients=50] [--seed=N] [--chips=4] [--no-faults] [--json]

Builds the soak test with failpoints and runs it. The last line contains `passed` or `FAILED`. The
exit code is 0 if it passed.

Environment:
  PTOD_BAZEL_CACHE   Directory for build results (default ~/.cache/ptod-bazel)
USAGE
}

case ${1:-} in
  --help | -h) usage && exit 0 ;;
esac

deploy/setup.sh --build
cache=${PTOD_BAZEL_CACHE:-${HOME:-/var/tmp}/.cache/ptod-bazel}
build=(--disk_cache="$cache" --noshow_loading_progress)
[[ -t 2 ]] || build+=(--curses=no --color=no --show_progress_rate_limit=20)
bazel build "${build[@]}" //tests/soak
binaries=$(bazel info bazel-bin 2>/dev/null)
# The soak test finds the daemon in its own directory.
cd "$binaries/tests/soak/soak.runfiles/pto"
exec tests/soak/soak "$@"
