#!/bin/sh
# Builds a Debian package from a binary: packaging/deb.sh [BINARY [FOLDER]]. Without arguments it takes the static binary of
# packaging/static.sh and writes to packaging/out. The package has the man page and completions that the binary prints.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
binary=${1:-$here/out/pleach}
out=${2:-$here/out}
[ -x "$binary" ] || { echo "no binary at $binary: run packaging/static.sh first" >&2; exit 1; }
version=$("$binary" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 0755 "$tree"

install -Dm0755 "$binary" "$tree/usr/bin/pleach"
install -Dm0644 "$here/pleach.service" "$tree/lib/systemd/system/pleach.service"
install -Dm0644 "$here/pleach.toml" "$tree/etc/pleach/pleach.toml"
install -Dm0644 "$here/debian/copyright" "$tree/usr/share/doc/pleach/copyright"
mkdir -p "$tree/usr/share/man/man1" "$tree/usr/share/bash-completion/completions" \
  "$tree/usr/share/zsh/vendor-completions" "$tree/usr/share/fish/vendor_completions.d" "$tree/DEBIAN"
"$binary" man | gzip -9n >"$tree/usr/share/man/man1/pleach.1.gz"
"$binary" completions bash >"$tree/usr/share/bash-completion/completions/pleach"
"$binary" completions zsh >"$tree/usr/share/zsh/vendor-completions/_pleach"
"$binary" completions fish >"$tree/usr/share/fish/vendor_completions.d/pleach.fish"
find "$tree/usr" "$tree/etc" "$tree/lib" -type d -exec chmod 0755 {} +
find "$tree/usr/share" -type f -exec chmod 0644 {} +

depends="adduser"
# A binary of glibc wants the one that it was linked with, or a later one.
if ldd "$binary" 2>/dev/null | grep -q 'libc\.so'; then
  depends="$depends, libc6 (>= $(dpkg-query -W -f '${Version}' libc6 | cut -d- -f1)), libgcc-s1"
fi
cat >"$tree/DEBIAN/control" <<END
Package: pleach
Version: $version
Architecture: $architecture
Maintainer: The Pleach authors <pleach@localhost>
Installed-Size: $(du -sk "$tree" | cut -f1)
Depends: $depends
Section: database
Priority: optional
Description: search engine with related documents
 Speaks the Elasticsearch REST API of 2015 and of today, with
 transactions, leases with fencing tokens, and joins.
END
echo /etc/pleach/pleach.toml >"$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do
  install -m0755 "$here/debian/$script" "$tree/DEBIAN/$script"
done
(cd "$tree" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
chmod 0644 "$tree/DEBIAN/control" "$tree/DEBIAN/conffiles" "$tree/DEBIAN/md5sums"
mkdir -p "$out"
package=$out/pleach_${version}_$architecture.deb
dpkg-deb --root-owner-group -Z"${COMPRESSION:-xz}" --build "$tree" "$package" >/dev/null
echo "$package"
