# Shared by the scripts beside it, and sourced by them: checks for Rust, installs Debian packages
# that are missing, and chooses where to build.

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

need_rust() {
    command -v cargo >/dev/null || die "cargo is not installed: see https://rustup.rs"
}

# need_tools TOOL=PACKAGE…: installs the Debian packages of the tools that are not there. A tool is a command, a
# pattern of paths, or python:MODULE.
need_tools() {
    local pair missing=()
    for pair in "$@"; do
        has_tool "${pair%%=*}" || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    command -v apt-get >/dev/null || die "please install: ${missing[*]}"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "as root, run: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    say "installing Debian packages: ${missing[*]}"
    # Another installation may be at work: its lock is waited for.
    local patient=(-qq -o DPkg::Lock::Timeout=600)
    "${as_root[@]}" apt-get update "${patient[@]}" >&2 || say "the list of packages could not be refreshed"
    no_cluster "${missing[@]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y "${patient[@]}" --no-install-recommends "${missing[@]}" >&2
}

has_tool() {
    case "$1" in
        python:*) python3 -c "import ${1#python:}" 2>/dev/null ;;
        */*) compgen -G "$1" >/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

# Debian's PostgreSQL makes and starts a server of its own when it is installed, unless it is told not to.
no_cluster() {
    local settings=/etc/postgresql-common/createcluster.d
    [[ " $* " == *" postgresql "* ]] || return 0
    "${as_root[@]}" mkdir -p "$settings"
    echo "create_main_cluster = false" | "${as_root[@]}" tee "$settings/no-cluster.conf" >/dev/null
}

# What the tests of mounts drive, beside what the others need.
MOUNT_TOOLS=(
    fusermount3=fuse3 umount=mount flock=util-linux timeout=coreutils
    git=git tar=tar rsync=rsync vi=vim-tiny perl=perl
    npm=npm python3=python3 python:ensurepip=python3-venv
    sqlite3=sqlite3 "/usr/lib/postgresql/*/bin/initdb=postgresql"
    fio=fio stress-ng=stress-ng skopeo=skopeo runc=runc crun=crun
    /usr/bin/docker=docker.io dockerd=docker.io
)

# The command that runs tests, as the list `tests`: nextest, which is installed if it is missing and can be.
need_nextest() {
    tests=(cargo nextest run)
    cargo nextest --version >/dev/null 2>&1 && return 0
    say "installing cargo-nextest"
    cargo install --locked --quiet cargo-nextest && return 0
    say "cargo-nextest cannot be installed: using cargo test"
    tests=(cargo test)
}

# Suites for file systems that come as crates, at the versions that the tests were written for. They are kept
# beside what is built, and built once.
need_suites() {
    local place="${CARGO_TARGET_DIR:-target}/tools" pin
    for pin in pjdfstest@0.2.2 fsx@0.3.2; do
        if ! cargo install --list --root "$place" | grep -qx "${pin%@*} v${pin#*@}:"; then
            say "building $pin"
            cargo install --locked --quiet --root "$place" "$pin"
        fi
    done
}

# A build cache that outlives a checkout, if there is one: AVFS_BUILD_CACHE, or the default place if that
# directory was made. Dependencies are reused; our own crates are built anew, because cargo judges by file
# times, and a fresh checkout may carry old ones. One run at a time: builds replace each other's binaries.
choose_target() {
    local cache="${AVFS_BUILD_CACHE:-}" crate ours=()
    local default="${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/agentvfs-build"
    if [ -z "$cache" ] && [ -d "$default" ]; then
        cache="$default"
    fi
    if [ -z "$cache" ] || [ -n "${CARGO_TARGET_DIR:-}" ]; then
        return 0
    fi
    mkdir -p "$cache"
    exec 9>"$cache/.lock"
    flock -n 9 || { say "waiting for another run in $cache"; flock 9; }
    export CARGO_TARGET_DIR="$cache"
    for crate in crates/*/; do
        ours+=(--package "$(basename "$crate")")
    done
    cargo clean --quiet "${ours[@]}"
}
