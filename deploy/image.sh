#!/usr/bin/env bash
# Builds an OCI image of ptod from its Debian package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/image.sh [--dist=DIRECTORY] [--mirror=URL] [FILE]

Builds an OCI archive (default dist/ptod-VERSION.oci.tar) with Debian 12, ptod and ptoctl, from the
package ptod in DIRECTORY (default dist), which deploy/package.sh makes. Needs root, mmdebstrap,
buildah and a Debian mirror; without one of these it says so and exits with 77.

The image runs ptod as the user ptod, with four simulated chips. Its socket is /run/ptod/ptod.sock
and its state /var/lib/ptod, both volumes:

    podman run -v /run/ptod:/run/ptod oci-archive:dist/ptod-VERSION.oci.tar --sim-chips=8

All scenarios are run in the image before it is written.
USAGE
}

dist=dist
file=
mirror=http://deb.debian.org/debian
for argument in "$@"; do
  case $argument in
    --dist=*) dist=${argument#--dist=} ;;
    --mirror=*) mirror=${argument#--mirror=} ;;
    -h | --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) file=$argument ;;
  esac
done

skip() {
  echo "image.sh: skipped: $*" >&2
  exit 77
}
((EUID == 0)) || skip "it needs root"
for program in mmdebstrap buildah; do
  command -v $program >/dev/null || skip "there is no $program; install Debian's package $program"
done
packages=("$dist"/ptod_*_amd64.deb)
[[ ${#packages[@]} == 1 && -f ${packages[0]} ]] ||
  { echo "image.sh: expected one package ptod in $dist; run deploy/package.sh" >&2 && exit 1; }
package=$(realpath "${packages[0]}")
version=$(dpkg-deb -f "$package" Version)
: "${file:=$dist/ptod-${version%-*}.oci.tar}"

work=$(mktemp -d)
container=
cleanup() {
  if [[ -n $container ]]; then buildah rm "$container" >/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT

# The package's own dependencies, and nothing that only a machine with a kernel needs.
dependencies=$(dpkg-deb -f "$package" Depends | sed -E 's/ \([^)]*\)//g; s/ //g')
mmdebstrap --quiet --variant=essential --include="$dependencies" \
  --customize-hook="copy-in '$package' /tmp" \
  --customize-hook='chroot "$1" sh -c "dpkg -i /tmp/*.deb && rm /tmp/*.deb"' \
  --customize-hook='install -d -m 750 "$1/run/ptod" && chroot "$1" chown ptod:ptod /run/ptod' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  bookworm "$work/root.tar" "$mirror" >"$work/log" 2>&1 </dev/null ||
  { tail -n 5 "$work/log" >&2 && false; } || skip "cannot make a Debian from $mirror"

container=$(buildah from scratch)
buildah add --quiet "$container" "$work/root.tar" / >/dev/null
buildah config --user ptod:ptod --workingdir / \
  --stop-signal SIGTERM --label org.opencontainers.image.title=ptod \
  --label org.opencontainers.image.version="${version%-*}" \
  --label org.opencontainers.image.licenses=Apache-2.0 \
  --entrypoint '["/usr/bin/ptod", "--config=/etc/ptod/ptod.conf.txtpb", "--listen=unix:/run/ptod/ptod.sock", "--state-dir=/var/lib/ptod"]' \
  "$container"

# With the chips and the user of the image. In /tmp, because buildah mounts an empty /run meanwhile.
buildah run --isolation chroot "$container" -- sh -ec '
  export PTOD_ADDRESS=unix:/tmp/ptod.sock
  ptod --config=/etc/ptod/ptod.conf.txtpb --listen=$PTOD_ADDRESS --state-dir=/var/lib/ptod \
    --drain-grace=0s 2>/tmp/log &
  for i in $(seq 100); do test -S /tmp/ptod.sock && break; sleep 0.1; done
  ptoctl scenarios run all >/tmp/out || { cat /tmp/out /tmp/log; exit 1; }
  echo "as $(id -un): $(tail -n 1 /tmp/out)"
  kill $!
  wait $!
  rm -r /tmp/log /tmp/out /var/lib/ptod/*' ||
  { echo "image.sh: the image does not work" >&2 && exit 1; }

# Not before: buildah would mount folders of root over them.
buildah config --volume /run/ptod --volume /var/lib/ptod "$container"
rm -f "$file"
buildah commit --quiet "$container" "oci-archive:$file:ptod:${version%-*}" >/dev/null
ls -sh "$file"
