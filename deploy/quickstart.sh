#!/usr/bin/env bash
# Builds ptod from a fresh clone, starts it with simulated chips, runs a graph and stops it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/quickstart.sh

Installs missing packages, builds ptod and ptoctl, starts a daemon with four simulated chips on
a private socket, runs client/examples/vector_add.json and stops the daemon. Leaves only the
build results behind. Can be run repeatedly and in parallel. The exit code is 0 on success.

Environment:
  PTOD_BAZEL_CACHE   Directory for build results (default ~/.cache/ptod-bazel)
USAGE
}

case ${1:-} in
  '') ;;
  --help | -h) usage && exit 0 ;;
  *) usage >&2 && exit 2 ;;
esac

readonly ready_seconds=30 stop_seconds=15
directory= # for all files of the daemon
daemon=    # process id of the daemon while it may be running

step() { printf '\n==> %s\n' "$*"; }

fail() {
  echo "quickstart.sh: $*" >&2
  if [[ -f $directory/ptod.log ]]; then
    echo "---- the daemon's log:" >&2
    tail -n 50 "$directory/ptod.log" >&2
  fi
  exit 1
}

running() { [[ -n $daemon ]] && kill -0 "$daemon" 2>/dev/null; }

# Stops the daemon and waits; kills it if it does not stop in time. Sets `daemon_status`.
stop_daemon() {
  local deadline=$((SECONDS + stop_seconds))
  kill -TERM "$daemon" 2>/dev/null || true
  while running && ((SECONDS < deadline)); do sleep 0.05; done
  if running; then
    echo "quickstart.sh: ptod did not stop within $stop_seconds s; killing it" >&2
    kill -KILL "$daemon" 2>/dev/null || true
  fi
  daemon_status=0
  wait "$daemon" || daemon_status=$?
  daemon=
}

cleanup() {
  local status=$?
  trap '' INT TERM # do not clean up twice
  if [[ -n $daemon ]]; then stop_daemon; fi
  if [[ -n $directory ]]; then rm -rf "$directory"; fi
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

started=$SECONDS

step "Setting up"
deploy/setup.sh --build

step "Building (the first build takes several minutes)"
cache=${PTOD_BAZEL_CACHE:-${HOME:-/var/tmp}/.cache/ptod-bazel}
build=(--config=release --disk_cache="$cache" --noshow_loading_progress)
[[ -t 2 ]] || build+=(--curses=no --color=no --show_progress_rate_limit=20)
bazel build "${build[@]}" //daemon:ptod //client/ptoctl:ptoctl
binaries=$(bazel info --config=release bazel-bin 2>/dev/null) || fail "bazel info failed"
ptod=$binaries/daemon/ptod
ptoctl=$binaries/client/ptoctl/ptoctl

step "Starting ptod with four simulated chips"
# Below /tmp, because the path of a unix socket is limited to 107 bytes.
directory=$(mktemp -d /tmp/ptod-quickstart.XXXXXX)
export PTOD_ADDRESS=unix:$directory/ptod.sock
"$ptod" --sim-chips=4 --listen="$PTOD_ADDRESS" --state-dir="$directory/state" \
  >"$directory/ptod.log" 2>&1 </dev/null &
daemon=$!

deadline=$((SECONDS + ready_seconds))
until timeout 5 "$ptoctl" node info -q >/dev/null 2>"$directory/ptoctl.log"; do
  running || fail "ptod exited during startup"
  ((SECONDS < deadline)) ||
    fail "ptod was not ready within $ready_seconds s: $(tail -n 1 "$directory/ptoctl.log")"
  sleep 0.05
done

step "ptoctl node info"
"$ptoctl" node info || fail "ptoctl node info failed"

step "ptoctl chips ls"
"$ptoctl" chips ls || fail "ptoctl chips ls failed"

step "ptoctl runs submit client/examples/vector_add.json --watch"
"$ptoctl" runs submit client/examples/vector_add.json --watch || fail "the run failed"

step "Stopping ptod"
running || fail "ptod exited unexpectedly"
stop_daemon
((daemon_status == 0)) || fail "ptod exited with code $daemon_status"

step "Finished successfully in $((SECONDS - started)) s"
cat <<NEXT
To go on by hand:
  $ptod --sim-chips=4 --listen=unix:/tmp/ptod.sock --state-dir=/tmp/ptod-state &
  export PTOD_ADDRESS=unix:/tmp/ptod.sock
  $ptoctl --help
NEXT
