#!/usr/bin/env bash
# Tests the Debian packages and the wheel in a clean Debian 12, with systemd.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'USAGE'
Usage: deploy/package_test.sh [--dist=DIRECTORY] [--base=FILE] [--mirror=URL] [--lintian] [STEP ...]

Makes a Debian 12 with mmdebstrap, starts its systemd in namespaces of its own, and installs, uses,
upgrades, removes and purges the packages there. Takes about five minutes and 2 GiB in TMPDIR. This
machine stays as it is: all mounts and processes end with the test.

Needs root, the packages of `deploy/setup.sh --package`, and a Debian mirror. Where one of these is
missing it says so and exits with 77. Not part of deploy/test.sh, which needs no network.

Steps, in this order; the first two and the last are always run:
  install     ptod: user, units, man pages; the socket is there and the daemon is not
  use         the first client starts it; all scenarios; who may connect; an idle daemon
  python      python3-ptod: the example of the README, an upgrade under load
  library     libptod-dev: a program built with CMake, and with pkg-config
  monitoring  the alert rules and the daemon's metrics, with promtool
  wheel       as another user: the example of the README in 5 s; kill -9 leaves nothing behind
  remove      removal keeps state and configuration, purge keeps nothing

Options:
  --dist=DIRECTORY  Where the packages and wheels are (default: they are built)
  --base=FILE       Archive of the Debian to use; it is made if it does not exist
  --mirror=URL      Debian mirror (default http://deb.debian.org/debian)
  --lintian         Check the packages with lintian too, which is installed in the Debian
  --help            Show this help
USAGE
}

dist=
base=
mirror=http://deb.debian.org/debian
lintian=false
steps=()
for argument in "$@"; do
  case $argument in
    --dist=*) dist=$(realpath "${argument#--dist=}") ;;
    --base=*) base=$(realpath -m "${argument#--base=}") ;;
    --mirror=*) mirror=${argument#--mirror=} ;;
    --lintian) lintian=true ;;
    -h | --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) steps+=("$argument") ;;
  esac
done
((${#steps[@]})) || steps=(python library monitoring wheel)

skip() {
  echo "package_test.sh: skipped: $*" >&2
  exit 77
}

((EUID == 0)) || skip "systemd in a chroot needs root"
for program in mmdebstrap unshare nsenter; do
  command -v $program >/dev/null || skip "there is no $program; run deploy/setup.sh --package"
done
unshare --mount --pid --cgroup --fork true 2>/dev/null ||
  skip "this system does not allow namespaces"

work=$(mktemp -d)
readonly work root=$work/debian
init=    # process that holds the namespaces
started=$SECONDS

cleanup() {
  local status=$?
  trap '' INT TERM
  if [[ -n $init ]]; then
    # The end of a namespace's first process ends all others in it, and its mounts go with them.
    kill -KILL "$init" 2>/dev/null || true
    wait "$init" 2>/dev/null || true
  fi
  rm -rf --one-file-system "$work"
  if ((status == 0)); then
    echo "package_test.sh: passed in $((SECONDS - started)) s"
  elif ((status != 77)); then
    echo "package_test.sh: FAILED after $((SECONDS - started)) s" >&2
  fi
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '\n==> %s\n' "$*"; }

fail() {
  echo "---- the last lines of the journal:" >&2
  guest journalctl --quiet --no-pager -n 20 -u ptod.service -u ptod.socket >&2 || true
  echo "package_test.sh: $*" >&2
  exit 1
}

# ---- packages

if [[ -z $dist ]]; then
  dist=$work/dist
  deploy/package.sh "$dist"
  deploy/wheel.sh "$dist"
fi
version=$(dpkg-deb -f "$dist"/ptod_*_amd64.deb Version)
step "A newer version of the packages than $version"
deploy/package.sh --no-build --version="$version+upgrade" "$work/newer" >/dev/null

# ---- a Debian

if [[ -z $base || ! -e $base ]]; then
  step "Making a Debian 12 from $mirror"
  : "${base:=$work/base.tar}"
  mmdebstrap --quiet --variant=apt --include=systemd,systemd-sysv,dbus,adduser,procps,ca-certificates \
    bookworm "$base" "$mirror" </dev/null 2>"$work/mmdebstrap.log" || {
    tail -n 5 "$work/mmdebstrap.log" >&2
    rm -f "$base"
    skip "cannot make a Debian from $mirror"
  }
fi
mkdir -p "$root"
tar -C "$root" -xf "$base"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/packages" "$root/newer" "$root/test"
cp "$dist"/*.deb "$root/packages/"
cp "$dist"/ptod-*-linux_x86_64.whl "$root/packages/" 2>/dev/null || true
cp "$work/newer"/*.deb "$root/newer/"
cp deploy/package_test/* "$root/test/"

# Starts systemd in it.
boot() {
  unshare --mount --pid --uts --ipc --cgroup --fork --kill-child --propagation private \
    bash -s "$root" >"$work/systemd.log" 2>&1 <<'BOOT' &
set -e
root=$1
hostname package-test
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
# For the private /dev of services.
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
# Not a chroot: services have mount namespaces of their own, for which / has to be a mount.
cd "$root"
pivot_root . .
umount --lazy .
exec env -i container=package-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --unit=multi-user.target --show-status=no
BOOT
  init=$!
  local deadline=$((SECONDS + 60))
  until [[ $(guest systemctl is-system-running 2>/dev/null) =~ ^(running|degraded)$ ]]; do
    ((SECONDS < deadline)) || { cat "$work/systemd.log" >&2 && fail "systemd does not start"; }
    sleep 0.2
  done
}

# Runs a command in it, for at most ten minutes.
guest() {
  local pid
  pid=$(pgrep -P "$init" | head -n 1)
  [[ -n $pid ]] || return 1
  timeout 600 nsenter --target "$pid" --mount --pid --uts --ipc --cgroup \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@" \
    </dev/null
}
# The same as a user.
guest_as() {
  local user=$1
  shift
  guest setpriv --reuid="$user" --regid="$user" --init-groups env HOME="/home/$user" "$@"
}
install_packages() { guest apt-get -q -y install --no-install-recommends "$@" >"$work/apt.log" 2>&1 ||
  { cat "$work/apt.log" >&2 && fail "apt-get install $*"; }; }

expect() { [[ $2 == "$3" ]] || fail "$1: '$2' instead of '$3'"; }
expect_text() { [[ $2 == *"$3"* ]] || fail "$1: '$3' is not in: $2"; }

# ---- steps

# CPU time of the daemon in ms.
cpu_ms() {
  local pid
  pid=$(guest systemctl show --property=MainPID --value ptod.service)
  guest sh -c "cat /proc/$pid/task/*/schedstat" | awk '{ms += $1 / 1e6} END {print int(ms)}'
}

# What belongs to ptod, wherever it is.
traces() {
  guest find / -xdev \( -path /packages -o -path /newer -o -path /test -o -path /proc -o -path /home \) \
    -prune -o \( -iname '*ptod*' -o -iname '*ptoctl*' -o -nouser -o -nogroup \) -print |
    grep -vE '^/var/(log|cache)/|^/tmp/systemd-private' || true
  guest sh -c 'ls /run/ptod /dev/shm' 2>/dev/null | sed 's|^|/run/ptod or /dev/shm: |' |
    grep -v ':$' | grep -vE ': (/dev/shm:)?$' || true
  guest getent passwd ptod || true
  guest getent group ptod || true
  guest pgrep -a ptod || true
}

run_install() {
  step "Install ptod"
  guest apt-get -q update >/dev/null || skip "the mirror does not answer"
  install_packages "/packages/ptod_${version}_amd64.deb"
  expect "the user's home" "$(guest getent passwd ptod | cut -d: -f6)" /var/lib/ptod
  expect "the socket" "$(guest systemctl is-active ptod.socket)" active
  expect "the socket's start" "$(guest systemctl is-enabled ptod.socket)" enabled
  expect "the daemon without a client" "$(guest systemctl is-active ptod.service || true)" inactive
  expect "mode of the socket" "$(guest stat -c '%U:%G %a' /run/ptod/ptod.sock)" "ptod:ptod 660"
  expect_text "the version" "$(guest ptoctl --version)" "${version%%-*}"
  # mmdebstrap leaves man pages out of nothing, so they are there to look at.
  expect_text "ptod(8)" "$(guest sh -c 'zcat /usr/share/man/man8/ptod.8.gz')" '.SH FILES'
  expect_text "ptoctl-runs(1)" "$(guest sh -c 'zcat /usr/share/man/man1/ptoctl-runs.1.gz')" \
    'runs submit'
}

run_use() {
  step "The first client starts the daemon"
  local began=$EPOCHREALTIME
  expect "chips" "$(guest ptoctl chips ls -q | wc -l)" 4
  echo "answered after $(awk "BEGIN {print int(($EPOCHREALTIME - $began) * 1000)}") ms"
  expect "the daemon" "$(guest systemctl is-active ptod.service)" active
  expect "mode of its folder" "$(guest stat -c '%U:%G %a' /run/ptod)" "ptod:ptod 750"

  step "All scenarios"
  guest ptoctl scenarios run all | tee "$work/scenarios.log" | tail -n 3
  grep -qE '^([0-9]+) of \1 scenarios passed' "$work/scenarios.log" || fail "scenarios failed"

  step "Completion in three shells"
  install_packages zsh fish
  guest zsh -n /usr/share/zsh/vendor-completions/_ptoctl
  expect_text "fish" "$(guest fish -c 'complete -C "ptoctl runs sub"')" submit
  expect_text "fish, names" "$(guest fish -c 'complete -C "ptoctl chips reset chips/"')" chips/3
  expect_text "bash, names" "$(guest bash -c '
    compopt() { :; }
    source /usr/share/bash-completion/completions/ptoctl
    COMP_WORDS=(ptoctl chips reset chips/) COMP_CWORD=3
    _ptoctl && echo "${COMPREPLY[*]}"')" "chips/0 chips/1 chips/2 chips/3"

  step "Who may connect"
  guest adduser --quiet --disabled-password --gecos '' member
  guest adduser --quiet --disabled-password --gecos '' stranger
  guest adduser --quiet member ptod
  expect "a member's run" "$(guest_as member ptoctl runs submit \
    /usr/share/doc/ptod/examples/vector_add.json >/dev/null && echo ok)" ok
  if guest_as stranger ptoctl chips ls 2>/dev/null; then fail "a stranger may connect"; fi

  step "An idle daemon"
  local before
  before=$(cpu_ms)
  sleep 10
  echo "CPU time in 10 s: $(($(cpu_ms) - before)) ms"
  (($(cpu_ms) - before < 50)) || fail "an idle daemon uses more than 0.5 % of a CPU"
  echo "exposure: $(guest systemd-analyze security --no-pager ptod.service | tail -n 1)"
}

run_python() {
  step "Python"
  install_packages "/packages/python3-ptod_${version}_all.deb"
  expect_text "pip" "$(guest python3 -c \
    'import importlib.metadata as m; print(m.version("ptod"))')" "${version%%-*}"
  guest_as member python3 /test/eight_lines.py

  step "Upgrade under load"
  guest sh -c 'echo "# by the administrator" >>/etc/ptod/ptod.conf.txtpb'
  local load pid inode
  pid=$(guest systemctl show --property=MainPID --value ptod.service)
  inode=$(guest stat -c %i /run/ptod/ptod.sock)
  guest rm -f /tmp/stop
  guest_as member timeout 300 python3 /test/load.py /tmp/stop >"$work/load.log" 2>&1 &
  load=$!
  sleep 3
  install_packages "/newer/ptod_${version}+upgrade_amd64.deb" \
    "/newer/python3-ptod_${version}+upgrade_all.deb"
  sleep 3
  guest touch /tmp/stop
  wait "$load" || { cat "$work/load.log" >&2 && fail "something was lost in the upgrade"; }
  cat "$work/load.log"
  [[ $(guest systemctl show --property=MainPID --value ptod.service) != "$pid" ]] ||
    fail "the old daemon still runs"
  expect "the socket, which must stay" "$(guest stat -c %i /run/ptod/ptod.sock)" "$inode"
  expect_text "the configuration" "$(guest cat /etc/ptod/ptod.conf.txtpb)" 'by the administrator'
}

run_library() {
  step "A program that uses the library"
  install_packages "/packages/libptod1_${version}_amd64.deb" \
    "/packages/libptod-dev_${version}_amd64.deb" g++ cmake make pkg-config
  guest sh -ec '
    cp -r /usr/share/doc/libptod-dev/examples /tmp/example
    cd /tmp/example
    cmake -S . -B build >build.log && cmake --build build >>build.log || { cat build.log; exit 1; }
    g++ -std=c++20 vector_add.cc -o by_pkg_config $(pkg-config --cflags --libs ptod)
    ldd build/vector_add | grep libptod.so.1
    ! ldd build/vector_add_static | grep libptod
    for program in build/vector_add build/vector_add_static ./by_pkg_config; do $program; done
    rm -r /tmp/example' || fail "the example does not work"
}

run_wheel() {
  step "The wheel, as a user without rights"
  install_packages python3-venv python3-grpcio python3-numpy python3-protobuf
  guest_as stranger sh -ec '
    cd && python3 -m venv --system-site-packages venv
    venv/bin/pip install --quiet --ignore-installed --no-index --no-deps /packages/ptod-*.whl
    venv/bin/ptoctl --version'
  local began=$EPOCHREALTIME
  guest_as stranger /home/stranger/venv/bin/python /test/eight_lines.py
  awk "BEGIN {t = $EPOCHREALTIME - $began; printf \"%.1f s\n\", t; exit t >= 5}" ||
    fail "the example takes too long"

  step "kill -9 of Python"
  guest_as stranger sh -ec '
    cd && rm -rf tmp && mkdir tmp
    TMPDIR=$HOME/tmp XDG_RUNTIME_DIR=$HOME/tmp venv/bin/python -c "
import ptod, time
with ptod.local(chips=2) as node, node.session() as s:
    x = s.empty(1024)
    x.numpy()
    print(1, flush=True)
    time.sleep(600)" >out & python=$!
    until test -s out; do sleep 0.1; done
    pgrep -u "$(id -u)" -x ptod >/dev/null
    kill -9 $python
    for i in $(seq 100); do pgrep -u "$(id -u)" -x ptod >/dev/null || break; sleep 0.1; done
    ! pgrep -a -u "$(id -u)" ptod
    find tmp /dev/shm /tmp -user stranger ! -path tmp 2>/dev/null >left || true
    ! test -s left' ||
    fail "something is left: $(guest cat /home/stranger/left)"
}

run_monitoring() {
  step "Monitoring"
  install_packages prometheus curl
  guest sh -ec '
    cd /usr/share/doc/ptod/examples/monitoring
    promtool check rules ptod-alerts.yml
    promtool test rules ptod-alerts-test.yml
    sed -i "s|^# metrics_listen: .*|metrics_listen: \"127.0.0.1:9464\"|" /etc/ptod/ptod.conf.txtpb
    systemctl restart ptod.service
    curl -s http://127.0.0.1:9464/metrics >/tmp/metrics
    test -s /tmp/metrics
    promtool check metrics </tmp/metrics
    rm /tmp/metrics' || fail "the rules or the metrics are wrong"
}

run_remove() {
  step "Remove"
  local packages
  packages=$(guest dpkg-query -W -f '${Package}\n' | grep -E '^(python3-ptod|libptod.*)$' || true)
  # shellcheck disable=SC2086 # one word for each package
  { guest apt-get -q -y remove ptod && guest apt-get -q -y purge $packages; } >"$work/apt.log" 2>&1 ||
    { cat "$work/apt.log" >&2 && fail "apt-get remove"; }
  expect "processes" "$(guest pgrep -a ptod || true)" ''
  if guest test -e /run/ptod; then fail "/run/ptod is left"; fi
  guest test -s /etc/ptod/ptod.conf.txtpb || fail "removal must keep the configuration"
  guest test -e /var/lib/ptod/lock || guest sh -c 'ls /var/lib/ptod | grep -q .' ||
    fail "removal must keep the state"

  step "Purge"
  guest apt-get -q -y purge ptod >"$work/apt.log" 2>&1 ||
    { cat "$work/apt.log" >&2 && fail "apt-get purge"; }
  expect "what is left" "$(traces)" ''
}

run_lintian() {
  step "lintian"
  install_packages lintian
  guest sh -c 'lintian --allow-root --fail-on error --display-info /packages/*.deb' ||
    fail "lintian has found errors"
}

boot
run_install
run_use
for name in "${steps[@]}"; do
  "run_$name"
done
run_remove
if $lintian; then run_lintian; fi
