#!/usr/bin/env bash
# Builds the wheel into dist/, says its size, and tests it in a fresh virtual environment in which neither LLVM's packages
# nor this checkout's build can be seen.
. "$(dirname "$0")/common.sh"

say "Building the wheel"
build release # what the wheel is made of: built by then, it is only installed
rm -rf dist
"$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist \
  --config-settings=build-dir=build/release --config-settings=cmake.define.TILEWRIGHT_BUILD_TESTS=ON .
wheel=$(echo dist/tilewright-*.whl)
case $wheel in
*-cp311-cp311-linux_x86_64.whl) ;;
*) echo "unexpected tag: $wheel" >&2 && exit 1 ;;
esac
"$python" - "$wheel" <<'PY'
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
print(f"{sys.argv[1]}: {sum(i.compress_size for i in archive.infolist()) / 2**20:.1f} MiB, "
      f"{sum(i.file_size for i in archive.infolist()) / 2**20:.1f} MiB unpacked")
for i in sorted(archive.infolist(), key=lambda i: -i.file_size)[:6]:
    print(f"  {i.file_size / 2**20:8.2f} MiB  {i.filename}")
PY

say "Installing it in a fresh environment"
fresh=$root/build/wheel-test
rm -rf "$fresh"
"$python" -m venv "$fresh"
# torch and what it needs are seen through a path entry, which does not bring the development install along.
site() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
site "$python" >"$(site "$fresh/bin/python")/borrowed.pth"
"$fresh/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$wheel"

say "What pip says to another Python"
if message=$("$python" -m pip install --disable-pip-version-check --dry-run --no-deps --target "$fresh/other" \
  --python-version 3.12 --only-binary=:all: "$wheel" 2>&1); then
  echo "pip takes the wheel for Python 3.12" >&2 && exit 1
fi
[ "$(wc -l <<<"$message")" = 1 ] || { echo "more than one line: $message" >&2 && exit 1; }
echo "$message"

say "Testing it"
if unshare -m true 2>/dev/null; then
  # Empty folders lie over LLVM's packages and our build, in a mount namespace of this one process.
  unshare -m bash -euo pipefail -c '
    empty=$(mktemp -d)
    for folder in "$1" "$2"/build/release "$2"/python; do [ ! -d "$folder" ] || mount --bind "$empty" "$folder"; done
    for library in /usr/lib/x86_64-linux-gnu/lib{LLVM,MLIR}*.so*; do [ ! -f "$library" ] || mount --bind /dev/null "$library"; done
    cd "$empty" && HF_HUB_OFFLINE=1 "$3" "$2"/test/wheel/check.py' hidden "$llvm" "$root" "$fresh/bin/python"
else
  echo "no mount namespaces here: LLVM is not hidden, the needed libraries are checked all the same"
  (cd / && "$fresh/bin/python" "$root/test/wheel/check.py")
fi
