#!/usr/bin/env bash
# run_target.sh replay|fuzz PROGRAM CORPUS [OPTION...]: runs each file of the corpus once, or
# begins with the corpus and fuzzes for a minute. deploy/fuzz.sh says how much longer, and where to
# keep what comes of it.
set -euo pipefail

mode=$1 program=$2 corpus=$3
shift 3
shopt -s nullglob
inputs=("$corpus"/*)
((${#inputs[@]} > 0)) || { echo "$corpus has no files" >&2 && exit 1; }
# One input may take that long on a busy machine under AddressSanitizer.
limits=(-timeout=60 -rss_limit_mb=2048)
# A quarter more executions: to note where memory comes from takes as long as all else.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}malloc_context_size=8

case $mode in
  replay) exec "$program" "${limits[@]}" "$@" "${inputs[@]}" ;;
  fuzz)
    kept=${PTOD_FUZZ_DIR:-${TEST_UNDECLARED_OUTPUTS_DIR:-${TEST_TMPDIR:?}}}
    new=${PTOD_FUZZ_DIR:-$TEST_TMPDIR}/${corpus##*/}
    mkdir -p "$new"
    # In the suite always the same, so that a failure can be repeated.
    [[ -n ${PTOD_FUZZ_DIR:-} ]] || limits+=(-seed=1)
    exec "$program" "${limits[@]}" -max_total_time="${PTOD_FUZZ_SECONDS:-60}" \
      -print_final_stats=1 -artifact_prefix="$kept/${corpus##*/}-" "$@" "$new" "$corpus"
    ;;
  *) echo "run_target.sh: no mode '$mode'" >&2 && exit 2 ;;
esac
