#!/usr/bin/env bash
# Fuzzes what reads input from outside, for longer than the test suite does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/fuzz.sh [TARGET ...] [--seconds=600] [--jobs=N] [--list]

Builds the fuzz targets of tests/fuzz with AddressSanitizer and UndefinedBehaviorSanitizer, and
runs each for ten minutes, from its corpus and from what earlier runs have kept. Prints figures of
each, and what was found; the exit code is 1 when something was.

  TARGET        such as packed_graph; none means all
  --seconds=S   how long each is run
  --jobs=N      how many are run at a time (default: one for each processor)
  --list        print the targets and run nothing
  --help        show this

Environment: PTOD_FUZZ_DIR is where new inputs and findings are kept (default
~/.cache/ptod-fuzz), PTOD_BAZEL_CACHE where build results are (default ~/.cache/ptod-bazel).
USAGE
}

fail() {
  echo "fuzz.sh: $*" >&2
  exit 2
}

mapfile -t targets < <(sed -n '/^fuzz_target(/,/^)/s/^    name = "\(.*\)",$/\1/p' tests/fuzz/BUILD.bazel)
chosen=()
seconds=600
jobs=$(nproc)
for argument in "$@"; do
  case $argument in
    --seconds=*) seconds=${argument#--seconds=} ;;
    --jobs=*) jobs=${argument#--jobs=} ;;
    --list) printf '%s\n' "${targets[@]}" && exit 0 ;;
    -h | --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *)
      [[ " ${targets[*]} " == *" $argument "* ]] || fail "no target '$argument': see --list"
      chosen+=("$argument")
      ;;
  esac
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "--seconds=$seconds is no number of seconds"
[[ $jobs =~ ^[1-9][0-9]*$ ]] || fail "--jobs=$jobs is no number"
((${#chosen[@]} > 0)) || chosen=("${targets[@]}")

kept=${PTOD_FUZZ_DIR:-${HOME:-/var/tmp}/.cache/ptod-fuzz}
mkdir -p "$kept"
cache=${PTOD_BAZEL_CACHE:-${HOME:-/var/tmp}/.cache/ptod-bazel}
flags=(--config=asan --disk_cache="$cache" --noshow_loading_progress)
[[ -t 2 ]] || flags+=(--curses=no --color=no --show_progress_rate_limit=60)
tests=("${chosen[@]/#/\/\/tests\/fuzz:}")
tests=("${tests[@]/%/_fuzz_test}")

# The tests of the suite, but for their time and for what they leave behind. As many at a time as
# was said, also where that is more than .bazelrc and the processors would allow.
status=0
bazel test "${flags[@]}" --keep_going --cache_test_results=no --test_output=summary \
  --jobs="$jobs" --local_test_jobs="$jobs" --local_cpu_resources="$jobs" --test_timeout=$((seconds + 300)) \
  --test_env=PTOD_FUZZ_SECONDS="$seconds" --test_env=PTOD_FUZZ_DIR="$kept" \
  --sandbox_writable_path="$kept" "${tests[@]}" || status=$?
logs=$(bazel info --config=asan bazel-testlogs 2>/dev/null) || fail "bazel info failed"

# The last value of a line that libFuzzer ends with.
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
