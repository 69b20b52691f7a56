# Shared by scripts/tour and scripts/test, and sourced by them: checks for Rust, installs Debian packages
# that are missing, and chooses where to build.

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

need_rust() {
    command -v cargo >/dev/null || die "cargo is not installed: see https://rustup.rs"
}

# need_tools TOOL=PACKAGE…: installs the Debian packages of the tools that are not there.
need_tools() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    command -v apt-get >/dev/null || die "please install: ${missing[*]}"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "as root, run: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    say "installing Debian packages: ${missing[*]}"
    "${as_root[@]}" apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
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
