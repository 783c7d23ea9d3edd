#!/usr/bin/env bash
# Ten minutes of random clients, kills, cancels and lost calls against a ptod of its own; see
# tests/soak/README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/soak.sh [--seconds=600] [--clients=50] [--seed=N] [--chips=4] [--no-faults] [--json]

Builds the soak test with failpoints and runs it. The last line says `passed` or `FAILED`; the
exit code is 0 when it passed.

Environment: PTOD_BAZEL_CACHE is where build results are kept between runs
(default ~/.cache/ptod-bazel).
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
# The daemon is found beside it.
cd "$binaries/tests/soak/soak.runfiles/pto"
exec tests/soak/soak "$@"
