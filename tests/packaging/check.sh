#!/usr/bin/env bash
# Links Tapestry as other projects do: check.sh BUILD [--full]
# Installs BUILD to a temporary folder, checks what was installed, and builds the project beside this
# script with find_package(), with one component alone and with pkg-config; loads a shared library
# into Python. --full also builds it with add_subdirectory(), which compiles Tapestry again.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
  echo "packaging: $*" >&2
  exit 1
}

cmake --install "$build" --prefix "$prefix" >/dev/null

# Each public header compiles by itself; a header that is not installed fails to compile.
while read -r header; do
  echo "#include <${header#"$prefix/include/"}>"
done < <(find "$prefix/include" -name '*.h' | sort) >"$work/headers.txt"
[ "$(wc -l <"$work/headers.txt")" -gt 60 ] || fail "found $(wc -l <"$work/headers.txt") headers"
! grep -E 'detail|simd|gemm' "$work/headers.txt" || fail "found internal headers"
! grep -rlE '#include "(autograd|layers|optim|data|train)/' "$prefix/include" ||
  fail "found includes that start at the source folder"
sort -R --random-source="$here/check.sh" "$work/headers.txt" >"$work/headers.cpp"
g++ -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I "$prefix/include" "$work/headers.cpp"

# No xtensor in what tapestry.h includes.
! g++ -std=c++20 -M -I "$prefix/include" -include tapestry.h -x c++ /dev/null | grep -q xtensor/ ||
  fail "tapestry.h includes xtensor"

build_outside() {
  cmake -S "$here" -B "$work/$1" -DCMAKE_PREFIX_PATH="$prefix" "${@:2}" >"$work/log" 2>&1 &&
    cmake --build "$work/$1" --parallel 2 >>"$work/log" 2>&1 || {
    cat "$work/log" >&2
    fail "$1 cannot be built"
  }
  "$work/$1/program" >/dev/null || fail "$1: program fails"
}

build_outside all
"$work/all/with_xtensor" || fail "values change on their way through xtensor"
[ "$("$work/all/command" --version)" = "$("$build/tapestry" --version)" ] || fail "command line"
python3 - "$work/all/libshared.so" <<'PYTHON' || fail "Python cannot use the shared library"
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.derivative_of_square.restype = ctypes.c_double
sys.exit(library.derivative_of_square(ctypes.c_double(3.0)) != 6.0)
PYTHON
[ "$(nm -D --defined-only "$work/all/libshared.so" | grep -c tapestry)" = 0 ] ||
  fail "the shared library exports symbols of Tapestry"

build_outside some "-DCOMPONENTS=layers;optim"
for library in hdf5 yaml-cpp spdlog CLI11; do
  ! grep -qi "$library" "$work/some/CMakeCache.txt" || fail "layers and optim look for $library"
done
! cmake -S "$here" -B "$work/none" -DCMAKE_PREFIX_PATH="$prefix" -DCOMPONENTS=layer >"$work/log" 2>&1 ||
  fail "a component that does not exist is accepted"
grep -q "tapestry has no component layer; it has autograd" "$work/log" || fail "$(cat "$work/log")"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tapestry.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
g++ -O2 "$here/program.cpp" -I "$here" $(pkg-config --cflags --libs tapestry) -o "$work/program"
"$work/program" >/dev/null || fail "pkg-config: program fails"

if [ "${2:-}" = --full ]; then
  build_outside subdirectory "-DTAPESTRY_SOURCE=$source"
fi
echo "packaging: all checks passed"
