#!/usr/bin/env bash
# Installs all Debian packages needed to build, run and test ptod.
set -euo pipefail

usage() {
  cat <<'USAGE'
Usage: deploy/setup.sh [--build|--package] [--check]

Installs all Debian 12 packages needed to build, run and test ptod. Does nothing if they are
already installed. Requires root or sudo.

  --build   Install only the packages needed to build and run
  --package Install only the packages needed to build ptod's own packages and to test them
  --check   List missing packages without installing them; exit with 1 if there are any
  --help    Show this help
USAGE
}

# The build depends on the versions of compilers and libraries in Debian 12.
packages=(
  # Bazel, and the rule sets that it would otherwise download.
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
  # The default compiler; pkg-config resolves the libraries of Abseil.
  g++ pkg-config
  # gRPC and protobuf: libraries, headers (libprotoc-dev for the importer), code generators.
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev libprotoc-dev
  # Dependencies of gRPC, for the static linking of release builds; libssl-dev also for the hashes of
  # tokens.
  libabsl-dev libc-ares-dev libre2-dev libssl-dev zlib1g-dev
  # Stacks of waiting kernels.
  libboost-context-dev
  # The sandbox of kernel hosts.
  libseccomp-dev
  # The record of usage.
  libsqlite3-dev
  # Digests of requests.
  libxxhash-dev
  # Command-line parsing.
  libcli11-dev
  # Metrics.
  prometheus-cpp-dev
  # Scripts, Bazel's Python rules, and the file list of the style check.
  python3 python-is-python3 git
)

test_packages=(
  libgtest-dev libgmock-dev
  # What the Python client needs.
  python3-grpcio python3-numpy python3-protobuf
  # Task libraries and MPI implementations for comparison in benchmarks.
  libtbb-dev libstarpu-dev libopenmpi-dev openmpi-bin libmpich-dev mpich
  # The proxy for TLS whose configuration is in deploy/proxy.
  haproxy
  # Sanitizer builds, thread-safety analysis, formatting and linting.
  clang-19 clang-format-19 clang-tidy-19 lld-19 libclang-rt-19-dev
)

# For deploy/package.sh and deploy/package_test.sh only: no test of deploy/test.sh needs them.
release_packages=(dpkg-dev mmdebstrap)

# The interoperability test uses a Node.js client. Any Node.js 18 or later works. Debian's package
# conflicts with other packagings, so it is installed only if there is no Node.js.
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
release=false
check_only=false
for argument in "$@"; do
  case $argument in
    --build) build_only=true ;;
    --package) build_only=true release=true ;;
    --check) check_only=true ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

if ! $build_only; then
  packages+=("${test_packages[@]}")
  have_node || packages+=(nodejs npm)
fi

if $release; then packages+=("${release_packages[@]}"); fi

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
  command -v sudo >/dev/null || fail "run this script as root, or install sudo. Missing packages: ${missing[*]}"
  as_root=(sudo)
fi

# Waits for another apt instead of failing, and never prompts.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 --quiet "$@" </dev/null
}

echo "setup.sh: installing ${missing[*]}"
apt update || echo "setup.sh: apt-get update failed; continuing with the existing package lists" >&2
apt install --yes --no-install-recommends "${missing[@]}" ||
  fail "apt-get could not install ${missing[*]}. These packages are part of Debian 12 (bookworm)."
echo "setup.sh: done"
