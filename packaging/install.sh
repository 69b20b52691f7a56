#!/bin/sh
# Installs avfs from its release archive, without root:
#   sh install.sh [--from DIR|URL] [--prefix DIR]
# --from    where the archive and SHA256SUMS are: a directory, or an address (default: the directory of this script if
#           they are there, otherwise the release page)
# --prefix  where to install (default: ~/.local, or /usr/local for root)
set -eu

releases=https://github.com/agentvfs/agentvfs/releases/latest/download

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

from='' prefix=''
while [ $# -gt 0 ]; do
    case "$1" in
        --from | --prefix)
            [ $# -ge 2 ] || die "$1 needs a value"
            case "$1" in --from) from=$2 ;; *) prefix=$2 ;; esac
            shift 2
            ;;
        *) die "unknown argument '$1': sh install.sh [--from DIR|URL] [--prefix DIR]" ;;
    esac
done

[ "$(uname -s)" = Linux ] || die "avfs runs on Linux only"
machine=$(uname -m)
if [ -z "$from" ]; then
    here=$(cd "$(dirname "$0")" && pwd)
    if [ -f "$here/SHA256SUMS" ]; then from=$here; else from=$releases; fi
fi
if [ -z "$prefix" ]; then
    if [ "$(id -u)" -eq 0 ]; then prefix=/usr/local; else prefix="$HOME/.local"; fi
fi
for tool in sha256sum tar xz; do
    command -v "$tool" >/dev/null || die "$tool is not installed"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch() {
    case "$from" in
        http://* | https://*) curl --fail --location --silent --show-error --output "$work/$1" "$from/$1" ||
            die "$from/$1 cannot be downloaded" ;;
        *) cp "$from/$1" "$work/$1" || die "there is no $1 in $from" ;;
    esac
}

fetch SHA256SUMS
archive=$(sed -n "s/^[0-9a-f]*  \(avfs-[0-9.]*-$machine-linux\.tar\.xz\)$/\1/p" "$work/SHA256SUMS")
[ -n "$archive" ] || die "there is no archive for $machine in $from"
fetch "$archive"
(cd "$work" && grep "  $archive\$" SHA256SUMS | sha256sum --check --quiet --strict) ||
    die "$archive is damaged or not the published one: nothing was installed"
tar -xJf "$work/$archive" -C "$work"
unpacked="$work/${archive%.tar.xz}"

mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/bash-completion/completions" \
    "$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d"
# A running avfs keeps its own file: the new one gets the name in one step.
cp "$unpacked/bin/avfs" "$prefix/bin/.avfs.new"
mv "$prefix/bin/.avfs.new" "$prefix/bin/avfs"
cp "$unpacked"/man/*.1.gz "$prefix/share/man/man1/"
cp "$unpacked/completions/avfs.bash" "$prefix/share/bash-completion/completions/avfs"
cp "$unpacked/completions/avfs.zsh" "$prefix/share/zsh/site-functions/_avfs"
cp "$unpacked/completions/avfs.fish" "$prefix/share/fish/vendor_completions.d/avfs.fish"

echo "installed $("$prefix/bin/avfs" --version) in $prefix/bin"
case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "add it to your PATH:  export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
"$prefix/bin/avfs" doctor || true
