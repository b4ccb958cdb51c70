#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Uses an installed Tapestry as a user's project does: installed.sh PREFIX [SOURCE]
# Checks the files below PREFIX, builds the project next to this script with find_package(), with
# some components only and with pkg-config, and loads a shared library into Python. With the source
# folder SOURCE, also builds the project with add_subdirectory(), which compiles Tapestry.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$1
source=${2:+$(realpath "$2")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "packaging: $*" >&2
  exit 1
}

# The completion scripts equal the output of the installed program.
tapestry=$prefix/bin/tapestry
same() { "$tapestry" completion "$2" | cmp - "$1" || fail "$1 is out of date"; }
same "$prefix/share/bash-completion/completions/tapestry" bash
same "$prefix/share/zsh/vendor-completions/_tapestry" zsh
same "$prefix/share/fish/vendor_completions.d/tapestry.fish" fish

# The manual pages are installed if help2man is available. In packages they are compressed.
page() {
  gzip -cdf "$prefix/share/man/man${1##*.}/$1"* >"$work/page" || fail "$1 is not installed"
  grep -qF "$2" "$work/page" || fail "$1 does not have $2"
}
if command -v help2man >/dev/null; then
  page tapestry.1 'another process uses the run directory'
  page tapestry-config.5 'fBd_model: '
  "$tapestry" complete '' | cut -f 1 | while read -r command; do
    page "tapestry-$command.1" "tapestry-$command \\- "
  done
fi
[ -f "$prefix/share/doc/tapestry/examples/copy.yaml" ] || fail "no example configs"

# Relative links of installed pages lead to installed files, and example configs do not name files
# in other folders.
doc=$prefix/share/doc
found=0
while IFS=: read -r page link; do
  found=$((found + 1))
  [ -e "$(dirname "$page")/$link" ] || fail "$page: dead link $link"
done < <(grep -roP --include='*.md' '(?<=[^\[]\]\()(?!https?:|#)[^) #]+(?=[)#])' "$doc"/*tapestry*)
[ "$found" -gt 5 ] || fail "found only $found links in $doc"
! grep -n '\.\./' "$doc"/tapestry/examples/*.yaml || fail "an example config names another folder"

# The headers in the lists PUBLIC_HEADERS, and headers that only include other headers.
public_headers() {
  local folder
  for folder in autograd layers optim data train; do
    grep -oE "(^|[ (])[a-z0-9_/]+\.h" "$here/../../$folder/CMakeLists.txt" | grep -v tapestry/ |
      sed -E "s|^[ (]*|tapestry/$folder/|"
  done
  printf '%s\n' tapestry.h tapestry/xtensor.h tapestry/program.h
}

# Each public header compiles by itself; a header that is not installed fails to compile.
while read -r header; do
  echo "#include <${header#"$prefix/include/"}>"
done < <(find "$prefix/include/tapestry" "$prefix/include/tapestry.h" -name '*.h' | sort) >"$work/headers.txt"
! grep -E 'detail|simd|gemm' "$work/headers.txt" || fail "found internal headers"
public_headers | sort | diff - <(tr -d '<>' <"$work/headers.txt" | cut -d ' ' -f 2 | sort) ||
  fail "the installed headers differ from PUBLIC_HEADERS in the CMakeLists.txt"
! grep -rlE '#include "(autograd|layers|optim|data|train)/' "$prefix/include/tapestry"* ||
  fail "found includes that start at the source folder"
sort -R --random-source="$here/installed.sh" "$work/headers.txt" >"$work/headers.cpp"
g++ -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I "$prefix/include" "$work/headers.cpp"

# Each installed example compiles with the installed headers and libraries.
examples=("$doc"/libtapestry-dev/examples/*.cpp)
[ "${#examples[@]}" -gt 5 ] || fail "found only ${#examples[@]} examples"
for example in "${examples[@]}"; do
  g++ -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I "$prefix/include" "$example" ||
    fail "$example does not compile with the installed headers"
done

# Exceptions that public headers mention are declared in a public header.
for name in $(grep -rhoE '\b[A-Z][A-Za-z]*(Error|Checkpoint|InUse)\b' "$prefix/include/tapestry" | sort -u); do
  grep -rqE "(class|struct|using) $name\b" "$prefix/include/tapestry" ||
    fail "$name is in no public header"
done

# tapestry.h does not include xtensor.
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
"$work/all/with_xtensor" || fail "xtensor does not give the same values back"
[ "$("$work/all/command" --version)" = "command, with $("$tapestry" --version)" ] || fail "command line"
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

PKG_CONFIG_PATH=$(dirname "$(find "$prefix"/lib* -name tapestry.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
g++ -O2 "$here/program.cpp" -I "$here" $(pkg-config --cflags --libs tapestry) -o "$work/program"
"$work/program" >/dev/null || fail "pkg-config: program fails"

if [ -n "$source" ]; then
  build_outside subdirectory "-DTAPESTRY_SOURCE=$source"
fi
echo "packaging: all checks passed"
