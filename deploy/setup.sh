#!/usr/bin/env bash
# Installs every Debian package that building, running and testing ptod need.
set -euo pipefail

usage() {
  cat <<'USAGE'
Usage: deploy/setup.sh [--build] [--check]

Installs every Debian 12 package that building, running and testing ptod need. Does nothing
when they are all there. Needs root, or sudo.

  --build   only what building and running need
  --check   install nothing; list what is missing, and exit with 1 when something is
  --help    show this
USAGE
}

# Versions of compilers and libraries matter to the build: these are Debian 12's own packages.
packages=(
  # The build tool, and the rule sets that it would otherwise download.
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
  # The default compiler; pkg-config finds Abseil's graph of libraries.
  g++ pkg-config
  # gRPC and protobuf: libraries, headers (libprotoc-dev has the importer's), code generators.
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev libprotoc-dev
  # What gRPC is made of; release builds link it statically.
  libabsl-dev libc-ares-dev libre2-dev libssl-dev zlib1g-dev
  # Stacks of kernels that wait.
  libboost-context-dev
  # The command line.
  libcli11-dev
  # Metrics.
  prometheus-cpp-dev
  # Scripts, Bazel's Python rules, and the style check's list of files.
  python3 python-is-python3 git
)

test_packages=(
  libgtest-dev libgmock-dev
  # Task libraries and MPIs that benchmarks compare with.
  libtbb-dev libstarpu-dev libopenmpi-dev openmpi-bin libmpich-dev mpich
  # Sanitizer builds, the thread-safety analysis, formatting and linting.
  clang-19 clang-format-19 clang-tidy-19 lld-19 libclang-rt-19-dev
)

# The interoperability test speaks to ptod from Node.js. Any Node.js from 18 on will do,
# wherever it came from; Debian's conflicts with other packagings, so it is asked for only
# when there is none.
have_node() {
  local version
  command -v npm >/dev/null && version=$(node --version 2>/dev/null) || return 1
  version=${version#v}
  [[ ${version%%.*} =~ ^[0-9]+$ ]] && ((${version%%.*} >= 18))
}

fail() {
  echo "setup.sh: $*" >&2
  exit 1
}

build_only=false
check_only=false
for argument in "$@"; do
  case $argument in
    --build) build_only=true ;;
    --check) check_only=true ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

if ! $build_only; then
  packages+=("${test_packages[@]}")
  have_node || packages+=(nodejs npm)
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  fail "this is not a Debian system. ptod is built from Debian 12's packages:" \
    "use a Debian 12 machine or container, or install the equivalents of: ${packages[*]}"
fi

declare -A installed
while read -r name status; do
  [[ $status == installed ]] && installed[$name]=1
done < <(dpkg-query --show --showformat='${Package} ${db:Status-Status}\n' "${packages[@]}" \
  2>/dev/null)

missing=()
for name in "${packages[@]}"; do
  [[ -v installed[$name] ]] || missing+=("$name")
done

if ((${#missing[@]} == 0)); then
  echo "setup.sh: all ${#packages[@]} packages are installed"
  exit 0
fi
if $check_only; then
  printf '%s\n' "${missing[@]}"
  exit 1
fi

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || fail "run me as root, or install sudo. Missing: ${missing[*]}"
  as_root=(sudo)
fi

# Waits for another apt, rather than failing, and never asks.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 --quiet "$@" </dev/null
}

echo "setup.sh: installing ${missing[*]}"
apt update || echo "setup.sh: apt-get update failed; trying with the lists that are there" >&2
apt install --yes --no-install-recommends "${missing[@]}" ||
  fail "apt-get could not install: ${missing[*]}. These packages are Debian 12's (bookworm)."
echo "setup.sh: done"
