#!/bin/sh
# Builds a static, stripped binary: packaging/out/pleach. It needs rustup's target x86_64-unknown-linux-musl and musl-gcc
# (Debian: musl-tools). PROFILE=release is faster to build and slower to run than the default.
set -eu
cd "$(dirname "$0")/.."
target=$(uname -m)-unknown-linux-musl
profile=${PROFILE:-dist}
command -v musl-gcc >/dev/null || { echo "musl-gcc is missing: apt-get install musl-tools" >&2; exit 1; }
rustup target list --installed | grep -qx "$target" || rustup target add "$target"
PLEACH_COMMIT=${PLEACH_COMMIT:-$(git rev-parse --short=12 HEAD)}
export PLEACH_COMMIT
# Relative relocations as a bitmap (RELR) take a hundredth of the space, 2 MB less. musl 1.2.4 and later reads them at the start.
export RUSTFLAGS="${RUSTFLAGS:-} -C link-arg=-Wl,-z,pack-relative-relocs"
variable=CC_$(echo "$target" | tr - _)
env "$variable=musl-gcc" cargo build --profile "$profile" --target "$target" -p server
mkdir -p packaging/out
folder=${CARGO_TARGET_DIR:-target}/$target/$profile
strip -o packaging/out/pleach "$folder/pleach"
if ldd packaging/out/pleach 2>/dev/null | grep -q '=>'; then
  echo "the binary is not static" >&2
  exit 1
fi
ls -l packaging/out/pleach
