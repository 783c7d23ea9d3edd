#!/usr/bin/env bash
# Sets the machine up and runs the whole test suite, plain and under sanitizers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/test.sh [--only=PHASE,...] [--list] [-- BAZEL_ARGUMENT ...]

Installs what is missing, builds everything and runs all tests. The last line says
`N passed, N failed`; the exit code is 0 when nothing failed.

Phases, in this order:
  style     formatting, shell syntax, layers, complete package list
  default   everything is built; all tests
  tsan      tests without gRPC, under ThreadSanitizer
  asan      all other tests, under AddressSanitizer and UndefinedBehaviorSanitizer

  --only=PHASE,...  run only these
  --list            print the tests of each phase and run nothing
  --help            show this
  -- ...            handed on to every `bazel test`, such as --runs_per_test=10

Tags of a test: `tsan` puts one outside //runtime, //comm and //kernels into that phase too,
`no-tsan` and `no-asan` keep one out, `asan-only` keeps one out of all phases but that, `bench` and
`manual` out of all, `requires-npm` says that it needs tests/interop/node_modules, which this
script fetches.

Environment: PTOD_BAZEL_CACHE is where build results are kept between runs
(default ~/.cache/ptod-bazel).
USAGE
}

# ---- which tests belong to which phase, as Bazel queries -----------------------------------

tagged() { printf 'attr(tags, "[\\[ ](%s)[,\\]]", tests(//...))' "$1"; }

all="(tests(//...) except $(tagged 'bench|manual'))"
# Debian's gRPC is not instrumented, so ThreadSanitizer is for what does without it.
native="(filter('^//(runtime|comm|kernels)[/:]', $all) union $(tagged tsan))"
declare -A tests_of=(
  [default]="$all except $(tagged asan-only)"
  [tsan]="$native except $(tagged 'bench|manual|no-tsan|asan-only')"
  [asan]="$all except ($native except $(tagged no-tsan)) except $(tagged no-asan)"
)

# ---- arguments -------------------------------------------------------------------------------

phases=(style default tsan asan)
only=${phases[*]}
list=false
bazel_arguments=()
while (($#)); do
  case $1 in
    --only=*) only=${1#--only=} only=${only//,/ } ;;
    --list) list=true ;;
    --help | -h) usage && exit 0 ;;
    --) shift && bazel_arguments=("$@") && break ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done
for phase in $only; do
  [[ " ${phases[*]} " == *" $phase "* ]] || { echo "test.sh: no phase '$phase'" >&2 && exit 2; }
done

cache=${PTOD_BAZEL_CACHE:-${HOME:-/var/tmp}/.cache/ptod-bazel}
flags=(--disk_cache="$cache" --jobs="$(nproc)" --keep_going --noshow_loading_progress)
# A log keeps every line that a terminal would overwrite.
[[ -t 2 ]] || flags+=(--curses=no --color=no --show_progress_rate_limit=20)

work=$(mktemp -d)
cleanup() {
  rm -rf "$work"
  # Bazel's server makes the next build quick; nobody comes back to a CI machine.
  if [[ -n ${CI:-} ]]; then bazel shutdown >/dev/null 2>&1 || true; fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- results ---------------------------------------------------------------------------------

passed=0
failed=0
failures=() # one line for each
summary=()  # one line for each phase
started=$SECONDS

announce() { printf '\n==== %s\n' "$*"; }

# What is not a test counts only when it fails.
fail() {
  failed=$((failed + 1))
  failures+=("$1")
  echo "test.sh: $1" >&2
}

# ---- phases ----------------------------------------------------------------------------------

sources() {
  find . \( -name .git -o -name node_modules -o -name 'bazel-*' \) -prune -o -type f "$@" -print0
}

run_style() {
  local file found package
  while IFS= read -r -d '' file; do
    bash -n "$file" || fail "style: $file is not valid bash"
  done < <(sources \( -name '*.sh' -o -path './.ci/run' \))

  sources \( -name '*.h' -o -name '*.cc' \) | xargs -0 -r clang-format-19 --dry-run -Werror ||
    fail "style: run clang-format-19 -i on the files above"

  # What ThreadSanitizer is to see does without gRPC and protobuf, and knows nothing above it.
  found=$(sources \( -path './runtime/*' -o -path './comm/*' -o -path './kernels/*' \) \
    \( -name '*.h' -o -name '*.cc' \) ! -name '*_test.cc' |
    xargs -0 -r grep -HnE '^#include.*("daemon/|"client/|"proto/|grpc|\.pb\.h|google/protobuf)') ||
    true # grep finds nothing
  [[ -z $found ]] || fail "style: include what their layer must not know:"$'\n'"$found"

  python3 deploy/check_dependencies_test.py 2>"$work/dependencies.log" ||
    { cat "$work/dependencies.log" >&2 && fail "style: deploy/check_dependencies_test.py"; }
  python3 deploy/check_docs.py || fail "style: documents name what is not there, see above"
  python3 deploy/check_dependencies.py || fail "style: modules include what they must not, see above"

  # Every package that a repository rule asks for is one that setup.sh installs.
  for package in $(sed -n 's/.*packages = \[\(.*\)\].*/\1/p' third_party/debian/*.bzl | tr -d '",'); do
    grep -qE "^  ([^#]* )?${package//+/\\+}( |\$)" deploy/setup.sh ||
      fail "style: deploy/setup.sh does not install $package"
  done
}

# Fetches the packages of the test with a Node.js client, unless they are there. Without npm's
# registry such tests are left out, and the summary says so.
without=''
prepare_npm() {
  local directory=tests/interop
  [[ -f $directory/package-lock.json ]] || return 0
  [[ $directory/node_modules/.package-lock.json -nt $directory/package-lock.json ]] && return 0
  if ! npm ci --prefix "$directory" --no-audit --no-fund </dev/null; then
    without=" except $(tagged requires-npm)"
    summary+=("left out: tests tagged requires-npm, because npm ci failed")
  fi
}

# Writes the labels of a phase's tests to a file.
query() {
  bazel query --noshow_progress "(${tests_of[$1]})$without" >"$2" 2>"$work/query.log" ||
    { cat "$work/query.log" >&2 && return 1; }
}

# Runs the tests of phase $1 with the remaining arguments, and counts. A test that was not
# even built has failed.
run_tests() {
  local phase=$1 status=0 label test_failed=false
  shift
  query "$phase" "$work/tests" || { fail "$phase: the BUILD files cannot be read" && return; }
  if [[ ! -s $work/tests ]]; then
    echo "no tests" && return
  fi
  rm -f "$work/events.json"
  bazel test "${flags[@]}" "$@" --build_event_json_file="$work/events.json" \
    --target_pattern_file="$work/tests" "${bazel_arguments[@]}" || status=$?
  touch "$work/events.json"
  sed -nE '/"overallStatus":"(PASSED|FLAKY)"/s/^\{"id":\{"testSummary":\{"label":"([^"]*)".*/\1/p' \
    "$work/events.json" | sort -u >"$work/passed"
  while read -r label; do
    if grep -qxF "$label" "$work/passed"; then
      passed=$((passed + 1))
    else
      test_failed=true
      fail "$phase: $label"
    fi
  done <"$work/tests"
  if ((status != 0)) && ! $test_failed; then fail "$phase: bazel test ended with $status"; fi
}

run_default() {
  # Programs, examples and benchmarks have to compile too.
  bazel build "${flags[@]}" //... || fail "default: not everything can be built"
  run_tests default
}

run_tsan() { run_tests tsan --config=tsan; }

run_asan() { run_tests asan --config=asan; }

if $list; then
  for phase in default tsan asan; do
    query "$phase" "$work/tests"
    sed "s|^|$phase |" "$work/tests" | sort
  done
  exit 0
fi

announce "set-up"
deploy/setup.sh
[[ $only == style ]] || prepare_npm
for phase in "${phases[@]}"; do
  [[ " $only " == *" $phase "* ]] || continue
  announce "$phase"
  before=$SECONDS passed_before=$passed failed_before=$failed
  "run_$phase"
  summary+=("$(printf '%-8s %4d passed %4d failed %5d s' "$phase" $((passed - passed_before)) \
    $((failed - failed_before)) $((SECONDS - before)))")
done

announce "summary, after $((SECONDS - started)) s"
printf '%s\n' "${summary[@]}"
((failed == 0)) || printf 'FAILED %s\n' "${failures[@]}"
echo "$passed passed, $failed failed"
((failed == 0))
