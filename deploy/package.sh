#!/usr/bin/env bash
# Builds Debian packages. The same sources, compiler and libraries give the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/package.sh [--version=VERSION] [--no-build] [DIRECTORY]

Builds packages for Debian 12 on amd64 into DIRECTORY (default dist). Needs no network once the
packages of `deploy/setup.sh --package` are installed.

  ptod          the daemon and ptoctl, systemd units, configuration, man pages, shell completion
  libptod1      the C++ client library
  libptod-dev   its headers, static library, files for CMake and pkg-config
  python3-ptod  the Python client

Options:
  --version=VERSION  Version of the packages (default: the newest in deploy/debian/changelog). The
                     programs keep theirs: this is for tests of upgrades.
  --no-build         Use what the last build has left
  --help             Show this help

deploy/package_test.sh tests the packages in a clean Debian.
USAGE
}

version=
build=true
directory=dist
for argument in "$@"; do
  case $argument in
    --version=*) version=${argument#--version=} ;;
    --no-build) build=false ;;
    -h | --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) directory=$argument ;;
  esac
done

readonly triplet=x86_64-linux-gnu debian=deploy/debian
: "${version:=$(sed -nE '1s/^ptod \(([^)]*)\).*/\1/p' $debian/changelog)}"
program_version=$(sed -nE 's/.*kVersion = "([^"]*)".*/\1/p' daemon/version.h)
# Of all files in the packages, so that they depend on nothing but the sources.
SOURCE_DATE_EPOCH=$(date -d "$(sed -nE '/^ -- /{s/.*>  //p;q}' $debian/changelog)" +%s)
export SOURCE_DATE_EPOCH
export LC_ALL=C TZ=UTC
umask 022

if [[ ${version%-*} != "$program_version"* ]]; then
  echo "package.sh: the packages would be $version, but ptod is $program_version" >&2
  exit 1
fi

if $build; then
  deploy/setup.sh --package
  cache=${PTOD_BAZEL_CACHE:-${HOME:-/var/tmp}/.cache/ptod-bazel}
  flags=(--config=release --disk_cache="$cache" --noshow_loading_progress)
  [[ -t 2 ]] || flags+=(--curses=no --color=no --show_progress_rate_limit=20)
  bazel build "${flags[@]}" //daemon:ptod //client/ptoctl //client/python:pure_wheel \
    //runtime/chip/ascend/host:ptod_chip_host //$debian:libptod //$debian:include
fi
bin=$(bazel info --config=release bazel-bin 2>/dev/null)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ---- helpers

# put MODE FILE TARGET: copies a file into the tree of a package.
put() { install -D -m "$1" "$2" "$3"; }

# Like put, with @NAME@ replaced.
fill() {
  mkdir -p "$(dirname "$2")"
  sed -e "s/@VERSION@/$program_version/g; s/@MAJOR@/${program_version%%.*}/g" \
    -e "s/@TRIPLET@/$triplet/g" "$1" >"$2"
}

# Programs without what only a debugger needs.
put_program() {
  put 755 "$1" "$2"
  strip --strip-unneeded --remove-section=.comment --remove-section=.note "$2"
}

compress() { gzip -9 -n "$1"; }

put_documents() {
  local package=$1 folder=$work/$1/usr/share/doc/$1
  put 644 $debian/copyright "$folder/copyright"
  put 644 $debian/changelog "$folder/changelog.Debian"
  put 644 CHANGELOG.md "$folder/changelog"
  compress "$folder/changelog.Debian"
  compress "$folder/changelog"
}

# Prints the packages whose shared libraries these files need.
library_packages() {
  mkdir -p "$work/shlibs/debian"
  cp $debian/control "$work/shlibs/debian/control"
  (cd "$work/shlibs" && dpkg-shlibdeps -O "$@") >"$work/shlibs.txt" 2>"$work/shlibs.log" ||
    { cat "$work/shlibs.log" >&2 && return 1; }
  sed -n 's/^shlibs:Depends=//p' "$work/shlibs.txt"
}

# Writes DEBIAN/control of a package whose tree is complete.
write_control() {
  local package=$1 shlibs=$2 root=$work/$1 size
  size=$(du -k -s --apparent-size "$root" | cut -f1)
  mkdir -p "$root/DEBIAN"
  python3 $debian/make_control.py $debian/control "$package" "$version" "$size" "$shlibs" \
    >"$root/DEBIAN/control"
}

# Builds the package from its tree.
build_package() {
  local package=$1 root=$work/$1 script architecture
  for script in preinst postinst prerm postrm; do
    if [[ -f $debian/$package.$script ]]; then
      put 755 "$debian/$package.$script" "$root/DEBIAN/$script"
    fi
  done
  if [[ -d $root/etc ]]; then
    (cd "$root" && find etc -type f -printf '/%p\n' | sort >DEBIAN/conffiles)
    chmod 644 "$root/DEBIAN/conffiles"
  fi
  (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort | xargs md5sum \
    >DEBIAN/md5sums)
  chmod -R u+rwX,go+rX,go-w "$root"
  find "$root" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
  architecture=$(sed -n 's/^Architecture: //p' "$root/DEBIAN/control")
  dpkg-deb --root-owner-group --uniform-compression -Zxz --build "$root" \
    "$directory/${package}_${version}_$architecture.deb" >/dev/null
}

# ---- the trees

make_ptod() {
  local root=$work/ptod lib=$work/ptod/usr/lib/ptod page libraries
  # Their folder has the program of chip hosts too, which they look for beside themselves.
  put_program "$bin/daemon/ptod" "$lib/ptod"
  put_program "$bin/client/ptoctl/ptoctl" "$lib/ptoctl"
  put_program "$bin/runtime/chip/ascend/host/ptod_chip_host" "$lib/ptod_chip_host"
  mkdir -p "$root/usr/bin"
  ln -s ../lib/ptod/ptod ../lib/ptod/ptoctl "$root/usr/bin/"

  put 644 deploy/ptod.socket "$root/lib/systemd/system/ptod.socket"
  # Without the advice on how to install it by hand.
  mkdir -p "$root/lib/systemd/system"
  sed -e '/^\[Unit\]/,$!d' -e 's|/usr/local/bin/|/usr/bin/|' deploy/ptod.service \
    >"$root/lib/systemd/system/ptod.service"
  mkdir -p "$root/etc/ptod"
  # A daemon that has something to show.
  sed '/^sim_chips {/,/^}/s/^  # count: 0$/  count: 4/' deploy/ptod.conf.txtpb \
    >"$root/etc/ptod/ptod.conf.txtpb"
  grep -q '^  count: 4$' "$root/etc/ptod/ptod.conf.txtpb"

  python3 deploy/man_pages.py --ptod "$lib/ptod" --ptoctl "$lib/ptoctl" \
    --version "$program_version" --date "$(date -d "@$SOURCE_DATE_EPOCH" +%F)" \
    --out "$work/man"
  for page in "$work/man"/*; do
    put 644 "$page" "$root/usr/share/man/man${page##*.}/${page##*/}"
    compress "$root/usr/share/man/man${page##*.}/${page##*/}"
  done
  local completion=$root/usr/share
  mkdir -p "$completion"/{bash-completion/completions,zsh/vendor-completions} \
    "$completion/fish/vendor_completions.d"
  "$lib/ptoctl" completion bash >"$completion/bash-completion/completions/ptoctl"
  "$lib/ptoctl" completion zsh >"$completion/zsh/vendor-completions/_ptoctl"
  "$lib/ptoctl" completion fish >"$completion/fish/vendor_completions.d/ptoctl.fish"

  local documents=$root/usr/share/doc/ptod
  mkdir -p "$documents"
  cp -r deploy/docs "$documents/docs"
  find "$documents/docs" -name BUILD.bazel -delete
  mkdir -p "$documents/examples"
  cp client/examples/*.json client/examples/*.txtpb "$documents/examples/"
  if [[ -d deploy/monitoring ]]; then
    mkdir -p "$documents/examples/monitoring"
    cp deploy/monitoring/*.{json,yml} "$documents/examples/monitoring/"
  fi
  put_documents ptod
  libraries=$(library_packages "$lib/ptod" "$lib/ptoctl" "$lib/ptod_chip_host")
  write_control ptod "$libraries"
}

make_libptod1() {
  local root=$work/libptod1 library=$work/libptod1/usr/lib/$triplet/libptod.so libraries
  mkdir -p "$(dirname "$library")"
  # The same objects as in the static library. Debian's libraries are shared with the program, which
  # uses Abseil and protobuf in the library's interface.
  # shellcheck disable=SC2046 # pkg-config gives words
  g++ -shared -o "$library.$program_version" -Wl,-soname,libptod.so.1 -Wl,-z,defs,-z,relro,-z,now \
    -Wl,--whole-archive "$bin/$debian/libptod.a" -Wl,--no-whole-archive -Wl,--as-needed \
    $(pkg-config --libs grpc++ protobuf absl_status absl_statusor absl_strings absl_time \
      absl_synchronization absl_flat_hash_map libcrypto)
  chmod 644 "$library.$program_version"
  strip --strip-unneeded --remove-section=.comment "$library.$program_version"
  ln -s "libptod.so.$program_version" "$library.1"
  put_documents libptod1
  libraries=$(library_packages "$library.$program_version")
  write_control libptod1 "$libraries"
  printf 'libptod 1 libptod1 (>= %s)\n' "$program_version" >"$root/DEBIAN/shlibs"
  printf 'activate-noawait ldconfig\n' >"$root/DEBIAN/triggers"
}

make_libptod_dev() {
  local root=$work/libptod-dev
  local include=$root/usr/include/ptod lib=$root/usr/lib/$triplet
  mkdir -p "$include" "$lib"
  cp -r --no-preserve=mode "$bin/$debian/include/." "$include/"
  install -m 644 proto/pto/v1/*.proto "$include/pto/v1/"
  # For own kernels: `#include <ptod/pto_kernel.h>`, and as the templates of `ptoctl kernels new`.
  install -m 644 kernels/pto_kernel.h kernels/pto_kernel_cpp.h "$include/"
  put 644 "$bin/$debian/libptod.a" "$lib/libptod.a"
  ln -s libptod.so.1 "$lib/libptod.so"
  fill $debian/ptod.pc.in "$lib/pkgconfig/ptod.pc"
  fill $debian/ptodConfig.cmake.in "$lib/cmake/ptod/ptodConfig.cmake"
  fill $debian/ptodConfigVersion.cmake.in "$lib/cmake/ptod/ptodConfigVersion.cmake"
  local examples=$root/usr/share/doc/libptod-dev/examples
  put 644 client/examples/vector_add.cc "$examples/vector_add.cc"
  put 644 $debian/example/CMakeLists.txt "$examples/CMakeLists.txt"
  put_documents libptod-dev
  write_control libptod-dev ''
}

make_python3_ptod() {
  local root=$work/python3-ptod
  local packages=$root/usr/lib/python3/dist-packages
  mkdir -p "$packages"
  python3 -m zipfile -e "$bin/client/python/ptod-$program_version-py3-none-any.whl" "$packages"
  rm "$packages"/ptod-*.dist-info/{RECORD,WHEEL}
  echo dpkg >"$packages/ptod-$program_version.dist-info/INSTALLER"
  local examples=$root/usr/share/doc/python3-ptod/examples
  mkdir -p "$examples"
  install -m 644 client/python/examples/*.py "$examples/"
  put_documents python3-ptod
  write_control python3-ptod ''
}

mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
for package in ptod libptod1 libptod-dev python3-ptod; do
  "make_${package//-/_}"
  build_package "$package"
done
(cd "$directory" && sha256sum ./*"_${version}_"*.deb)
