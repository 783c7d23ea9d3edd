#!/usr/bin/env bash
# Fuzzes the code that parses external input, for longer than the test suite does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/fuzz.sh [TARGET ...] [--seconds=600] [--jobs=N] [--list]

Builds the fuzz targets in tests/fuzz with AddressSanitizer and UndefinedBehaviorSanitizer and runs
each for ten minutes, starting from its corpus and the inputs kept by earlier runs. Prints
statistics and findings for each target. The exit code is 1 if there are findings.

  TARGET        Target to run, for example packed_graph (default: all targets). `pre_auth` is not one of
                them: it sends bytes to each kind of socket of a whole daemon, from clients that it does
                not know
  --seconds=S   Duration of each target in seconds (default 600)
  --jobs=N      Number of targets to run in parallel (default: one per processor)
  --list        List the targets and exit
  --help        Show this help

Environment:
  PTOD_FUZZ_DIR      Directory for new inputs and findings (default ~/.cache/ptod-fuzz)
  PTOD_BAZEL_CACHE   Directory for build results (default ~/.cache/ptod-bazel)
USAGE
}

fail() {
  echo "fuzz.sh: $*" >&2
  exit 2
}

mapfile -t targets < <(sed -n '/^fuzz_target(/,/^)/s/^    name = "\(.*\)",$/\1/p' tests/fuzz/BUILD.bazel)
chosen=()
pre_auth=false
seconds=600
jobs=$(nproc)
for argument in "$@"; do
  case $argument in
    --seconds=*) seconds=${argument#--seconds=} ;;
    --jobs=*) jobs=${argument#--jobs=} ;;
    --list) printf '%s\n' "${targets[@]}" && exit 0 ;;
    -h | --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    pre_auth) pre_auth=true ;;
    *)
      [[ " ${targets[*]} " == *" $argument "* ]] || fail "unknown target '$argument'; see --list"
      chosen+=("$argument")
      ;;
  esac
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "--seconds=$seconds: expected a positive number"
[[ $jobs =~ ^[1-9][0-9]*$ ]] || fail "--jobs=$jobs: expected a positive number"
((${#chosen[@]} > 0)) || $pre_auth || chosen=("${targets[@]}")

kept=${PTOD_FUZZ_DIR:-${HOME:-/var/tmp}/.cache/ptod-fuzz}
mkdir -p "$kept"
cache=${PTOD_BAZEL_CACHE:-${HOME:-/var/tmp}/.cache/ptod-bazel}
flags=(--config=asan --disk_cache="$cache" --noshow_loading_progress)
[[ -t 2 ]] || flags+=(--curses=no --color=no --show_progress_rate_limit=60)
if $pre_auth; then
  # Four kinds of sockets, one after the other.
  bazel test "${flags[@]}" --cache_test_results=no --test_output=streamed \
    --test_timeout=$((4 * seconds + 300)) --test_env=PTOD_FUZZ_SECONDS="$seconds" \
    //tests/integration:pre_auth_fuzz_test || exit 1
  ((${#chosen[@]} > 0)) || exit 0
fi
tests=("${chosen[@]/#/\/\/tests\/fuzz:}")
tests=("${tests[@]/%/_fuzz_test}")

# Runs the tests of the suite, but longer, and keeps their outputs. --jobs takes precedence over
# .bazelrc and the number of processors.
status=0
bazel test "${flags[@]}" --keep_going --cache_test_results=no --test_output=summary \
  --jobs="$jobs" --local_test_jobs="$jobs" --local_cpu_resources="$jobs" --test_timeout=$((seconds + 300)) \
  --test_env=PTOD_FUZZ_SECONDS="$seconds" --test_env=PTOD_FUZZ_DIR="$kept" \
  --sandbox_writable_path="$kept" "${tests[@]}" || status=$?
logs=$(bazel info --config=asan bazel-testlogs 2>/dev/null) || fail "bazel info failed"

# Returns the last value of a line in libFuzzer's final statistics.
stat() { sed -n "s/^stat::$1: *//p" "$2" | tail -n 1; }

printf '\n%-16s %12s %8s %7s %9s %14s %7s  %s\n' \
  target executions exec/s edges features inputs/size rss finding
for target in "${chosen[@]}"; do
  log=$logs/tests/fuzz/${target}_fuzz_test/test.log
  [[ -f $log ]] || { printf '%-16s was not run\n' "$target" && status=1 && continue; }
  last=$(grep -aE '^#[0-9]+[[:space:]].*cov: ' "$log" | tail -n 1) || last=
  field() { sed -nE "s/.* $1: ([^ ]+).*/\1/p" <<<"$last"; }
  finding=$(grep -aE '^(SUMMARY|artifact_prefix)|Test unit written to' "$log" | tr '\n' ' ') || true
  printf '%-16s %12s %8s %7s %9s %14s %5s M  %s\n' "$target" \
    "$(stat number_of_executed_units "$log")" "$(stat average_exec_per_sec "$log")" \
    "$(field cov)" "$(field ft)" "$(field corp)" "$(stat peak_rss_mb "$log")" "${finding:-none}"
done
echo "kept: $kept"
((status == 0)) || exit 1
