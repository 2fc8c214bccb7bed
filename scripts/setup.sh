#!/usr/bin/env bash
# Sets a Debian 12 machine up to build, test and run Tilewright: Debian packages, a virtual environment with pinned Python
# packages, and a development install. Does only what is missing, says what it does, and needs no network when all is there.
. "$(dirname "$0")/common.sh"

apt_packages=(
  build-essential git ccache cmake ninja-build                      # building
  clang-19 lld-19 llvm-19-dev libmlir-19-dev mlir-19-tools          # the compiler, and the one it is built from
  libclang-rt-19-dev clang-format-19 clang-tidy-19                  # sanitizers, coverage, formatting
  libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev         # libraries
  zlib1g-dev libzstd-dev
)
find_python() { command -v python3.11 >/dev/null && python3.11 -c 'import ensurepip, venv, sysconfig, os, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' 2>/dev/null; }
find_python || apt_packages+=(python3.11 python3.11-venv python3.11-dev)

say "Debian packages"
command -v dpkg-query >/dev/null || { echo "this script knows Debian 12; see its list of packages" >&2; exit 1; }
missing=()
for package in "${apt_packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
  echo "all ${#apt_packages[@]} are installed"
else
  echo "installing: ${missing[*]}"
  sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -q
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"
fi

say "Virtual environment .venv"
if [ -x "$python" ] && [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = 3.11 ]; then
  echo "is there"
else
  echo "creating it"
  python3.11 -m venv --clear "$venv"
fi

say "Python packages"
# Lines of constraints.txt that are not satisfied; a local version such as +cpu counts as the version.
unsatisfied() {
  "$python" - "$root/constraints.txt" "$@" <<'PY'
import re, sys
from importlib import metadata

name = lambda text: re.sub(r"[-_.]+", "-", text).lower()
have = {name(d.metadata["Name"]): d.version.split("+")[0] for d in metadata.distributions()}
for line in open(sys.argv[1]):
    package, _, version = line.split("#")[0].strip().partition("==")
    if package and (len(sys.argv) < 3 or package in sys.argv[2:]) and have.get(name(package)) != version:
        print(f"{package}=={version}")
PY
}
pip=("$python" -m pip install --disable-pip-version-check --quiet --constraint constraints.txt)
# torch comes first and alone: a package that only asks for "torch" would bring a build with gigabytes of CUDA.
torch=$(unsatisfied torch)
if [ -n "$torch" ]; then
  echo "installing $torch"
  "${pip[@]}" "$torch"
fi
rest=$(unsatisfied)
if [ -n "$rest" ]; then
  echo "installing:" $rest
  "${pip[@]}" --requirement requirements.txt
  rest=$(unsatisfied)
  [ -z "$rest" ] || { echo "not as pinned after installation:" $rest >&2; exit 1; }
else
  echo "all $(grep -c == constraints.txt) are installed"
fi

say "Development install"
# Python finds build/release/python, where the build puts libraries, links to the sources and the entry points.
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$root/build/release/python" >"$site/tilewright-development.pth"
ln -sfn "$root/build/release/bin/tilewright" "$venv/bin/tilewright"
echo ".venv sees build/release; 'tilewright' is in .venv/bin"

touch "$venv/.setup"
say "Set up. Next: make demo, or make test"
