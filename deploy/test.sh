#!/usr/bin/env bash
# Sets up the machine and runs the whole test suite, with and without sanitizers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/test.sh [--only=PHASE,...] [--list] [-- BAZEL_ARGUMENT ...]

Installs missing packages, builds everything and runs all tests. The last line is
`N passed, N failed`. The exit code is 0 if nothing failed. A test that fails runs once more; if it
passes then, it counts as passed, and the summary lists it as flaky.

Phases, in this order:
  style     Check formatting, shell syntax, layers and the package list
  default   Build everything and run all tests
  tsan      Run tests without gRPC under ThreadSanitizer
  asan      Run all other tests under AddressSanitizer and UndefinedBehaviorSanitizer

Options:
  --only=PHASE,...  Run only these phases
  --list            List the tests of each phase and exit
  --help            Show this help
  -- ...            Pass the remaining arguments to `bazel test`, for example --runs_per_test=10

Test tags:
  tsan              Also run in phase tsan (for tests outside //runtime, //comm and //kernels)
  no-tsan, no-asan  Do not run in that phase
  asan-only         Run only in phase asan
  bench, manual     Do not run in any phase
  requires-npm      Needs tests/interop/node_modules, which this script downloads

Environment:
  PTOD_BAZEL_CACHE  Directory for build results (default ~/.cache/ptod-bazel)
USAGE
}

# ---- which tests belong to which phase, as Bazel queries -----------------------------------

tagged() { printf 'attr(tags, "[\\[ ](%s)[,\\]]", tests(//...))' "$1"; }

all="(tests(//...) except $(tagged 'bench|manual'))"
# Debian's gRPC is not instrumented, so only tests without gRPC run under ThreadSanitizer.
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
  [[ " ${phases[*]} " == *" $phase "* ]] || { echo "test.sh: unknown phase '$phase'" >&2 && exit 2; }
done

cache=${PTOD_BAZEL_CACHE:-${HOME:-/var/tmp}/.cache/ptod-bazel}
flags=(--disk_cache="$cache" --jobs="$(nproc)" --keep_going --noshow_loading_progress)
# Many tests run real processes against real clocks, and a busy machine can stop any of them for
# seconds. A fault of the code fails twice.
test_jobs=$(nproc)
test_flags=(--flaky_test_attempts=2 --jobs="$test_jobs" --local_test_jobs="$test_jobs")
# A log file would keep every line that a terminal overwrites.
[[ -t 2 ]] || flags+=(--curses=no --color=no --show_progress_rate_limit=20)

work=$(mktemp -d)
cleanup() {
  rm -rf "$work"
  # The Bazel server makes the next build faster, but a CI machine runs only one.
  if [[ -n ${CI:-} ]]; then bazel shutdown >/dev/null 2>&1 || true; fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- results ---------------------------------------------------------------------------------

passed=0
failed=0
failures=() # one line per failure
flaky=()    # one line per test that passed only when it was repeated
summary=()  # one line per phase
started=$SECONDS

announce() { printf '\n==== %s\n' "$*"; }

# Checks that are not tests count only if they fail.
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

  # Code that runs under ThreadSanitizer must not include gRPC, protobuf or higher layers.
  found=$(sources \( -path './runtime/*' -o -path './comm/*' -o -path './kernels/*' \) \
    \( -name '*.h' -o -name '*.cc' \) ! -name '*_test.cc' |
    xargs -0 -r grep -HnE '^#include.*("daemon/|"client/|"proto/|grpc|\.pb\.h|google/protobuf)') ||
    true # grep finds nothing
  [[ -z $found ]] || fail "style: includes that the layer does not allow:"$'\n'"$found"

  python3 deploy/check_dependencies_test.py 2>"$work/dependencies.log" ||
    { cat "$work/dependencies.log" >&2 && fail "style: deploy/check_dependencies_test.py"; }
  python3 deploy/check_types.py || fail "style: types are defined twice, see above"
  python3 deploy/check_docs.py || fail "style: documents name what does not exist, see above"
  python3 deploy/check_dependencies.py || fail "style: modules have forbidden includes, see above"

  # setup.sh must install every package that a repository rule requires.
  for package in $(sed -n 's/.*packages = \[\(.*\)\].*/\1/p' third_party/debian/*.bzl | tr -d '",'); do
    grep -qE "^  ([^#]* )?${package//+/\\+}( |\$)" deploy/setup.sh ||
      fail "style: deploy/setup.sh does not install $package"
  done
}

# Downloads the packages of the Node.js client test unless they exist. If the npm registry is not
# reachable, such tests are skipped, and the summary reports it.
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

# Writes the labels of the tests of a phase to a file.
query() {
  bazel query --noshow_progress "(${tests_of[$1]})$without" >"$2" 2>"$work/query.log" ||
    { cat "$work/query.log" >&2 && return 1; }
}

# Runs the tests of phase $1 with the remaining arguments and counts the results. A test that could
# not be built counts as failed.
run_tests() {
  local phase=$1 status=0 label test_failed=false
  shift
  query "$phase" "$work/tests" || { fail "$phase: cannot read the BUILD files" && return; }
  if [[ ! -s $work/tests ]]; then
    echo "no tests" && return
  fi
  rm -f "$work/events.json"
  bazel test "${flags[@]}" "${test_flags[@]}" "$@" --build_event_json_file="$work/events.json" \
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
  while read -r label; do
    flaky+=("$phase: $label")
  done < <(sed -nE '/"overallStatus":"FLAKY"/s/^\{"id":\{"testSummary":\{"label":"([^"]*)".*/\1/p' \
    "$work/events.json" | sort -u)
  if ((status != 0)) && ! $test_failed; then fail "$phase: bazel test exited with code $status"; fi
}

run_default() {
  # Programs, examples and benchmarks must compile too.
  bazel build "${flags[@]}" //... || fail "default: the build failed"
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
((${#flaky[@]} == 0)) || printf 'FLAKY %s\n' "${flaky[@]}"
((failed == 0)) || printf 'FAILED %s\n' "${failures[@]}"
echo "$passed passed, $failed failed"
((failed == 0))
