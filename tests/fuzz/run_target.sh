#!/usr/bin/env bash
# run_target.sh replay|fuzz PROGRAM CORPUS [OPTION...]: runs each file of the corpus once, or fuzzes
# for 10 seconds, starting with the corpus. deploy/fuzz.sh says how to fuzz longer, and where to keep
# the results.
set -euo pipefail

mode=$1 program=$2 corpus=$3
shift 3
shopt -s nullglob
inputs=("$corpus"/*)
((${#inputs[@]} > 0)) || { echo "$corpus has no files" >&2 && exit 1; }
# The maximum time of one input on a busy machine under AddressSanitizer.
limits=(-timeout=60 -rss_limit_mb=2048)
# A quarter more executions: recording the origin of memory takes as long as everything else.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}malloc_context_size=8

case $mode in
  replay) exec "$program" "${limits[@]}" "$@" "${inputs[@]}" ;;
  fuzz)
    kept=${PTOD_FUZZ_DIR:-${TEST_UNDECLARED_OUTPUTS_DIR:-${TEST_TMPDIR:?}}}
    new=${PTOD_FUZZ_DIR:-$TEST_TMPDIR}/${corpus##*/}
    mkdir -p "$new"
    # In the test suite always the same seed, so that a failure can be repeated.
    [[ -n ${PTOD_FUZZ_DIR:-} ]] || limits+=(-seed=1)
    exec "$program" "${limits[@]}" -max_total_time="${PTOD_FUZZ_SECONDS:-10}" \
      -print_final_stats=1 -artifact_prefix="$kept/${corpus##*/}-" "$@" "$new" "$corpus"
    ;;
  *) echo "run_target.sh: no mode '$mode'" >&2 && exit 2 ;;
esac
