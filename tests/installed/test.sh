#!/usr/bin/env bash
# Installs a build into a directory of its own and uses it from there: test.sh BUILD_DIRECTORY
# Another project's tests are built with find_package(crashcut), and by pkg-config; the command judges the example and its fix.
# Without /dev/fuse or the compiler plugin, the tests that need it are left out, and the whole counts as skipped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
sanitizers=$(sed -n 's/^CRASHCUT_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")  # the pkg-config file does not know them

fail() {
  echo "installed: $*" >&2
  exit 1
}

cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
cmake -S "$here" -B "$work/notes" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER="$compiler" \
  -DEXAMPLES="$here/../../workloads/examples" -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/configure.log"
cmake --build "$work/notes"
"$work/notes/notes_test"

# crashcut_add_test(): what is safe passes, what loses data fails with the report, a bound is no success.
ctest=(ctest --test-dir "$work/notes" --output-on-failure --timeout 300)
# kind=text: lossy.kind fails and its output has the text; safe.kind passes.
expected=("run=violation: recovery aborted" "threads=violation: data race between")
without=nothing
status=0
skip() {
  echo "installed: SKIPPED: $1"
  without+="|$2"
  status=77
}
has_fuse=0
if [ -w /dev/fuse ]; then
  has_fuse=1
  expected+=("check=violation (lost): a crash can leave notes.txt" "checker=violation (check failed): ")
else
  skip "the tests that mount a filesystem: there is no /dev/fuse that can be opened" 'check|journal'
fi
if [ -e "$work/prefix/lib/crashcut/instrument/libcrashcut_pmem_plugin.so" ]; then
  expected+=("pmem=A flush of log+0x40 and a fence after log.c:18 makes this go away" "cxl=assertion \`letter->text == 42' failed")
else
  skip "the tests of pmem and cxl: this build has no compiler plugin" 'pmem|cxl'
fi
"${ctest[@]}" --no-tests=error -R '^safe' --exclude-regex "$without" || fail "a safe program did not pass"
for row in "${expected[@]}"; do
  kind=${row%%=*}
  if "${ctest[@]}" --no-tests=error -R "^lossy\.$kind\$" > "$work/lossy"; then fail "lossy.$kind passed: $(cat "$work/lossy")"; fi
  grep -qF "${row#*=}" "$work/lossy" || fail "lossy.$kind does not say \"${row#*=}\": $(cat "$work/lossy")"
done
"${ctest[@]}" --no-tests=error -R '^bounded' > "$work/bounded" || fail "bounded.run failed: $(cat "$work/bounded")"
grep -q 'bounded.run .*Skipped' "$work/bounded" || fail "bounded.run is not shown as skipped: $(cat "$work/bounded")"
((has_fuse == 0)) || (cd "$work" && "$work/notes/save_test")

# The same test in C++ by pkg-config, and a program under test, which takes nothing but crashcut.h.
export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
# shellcheck disable=SC2046  # words
"$compiler" -std=c++20 ${sanitizers:+"-fsanitize=$sanitizers"} "$here/notes_test.cc" -o "$work/notes_by_pkg_config" $(pkg-config --cflags --libs crashcut) \
  $(pkg-config --cflags --libs gtest_main)
"$work/notes_by_pkg_config"
# shellcheck disable=SC2046
cc "$here/../../workloads/examples/save_safe.c" -o "$work/save_safe" $(pkg-config --cflags crashcut)
"$(pkg-config --variable=crashcut crashcut)" run "$work/save_safe"

# A project that asks for a part that there is not is told so.
mkdir "$work/wrong"
printf 'cmake_minimum_required(VERSION 3.25)\nproject(wrong)\nfind_package(crashcut REQUIRED COMPONENTS tests)\n' > "$work/wrong/CMakeLists.txt"
if cmake -S "$work/wrong" -B "$work/wrong/build" -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/wrong.log" 2>&1; then
  fail "find_package() took the component \"tests\""
fi
grep -q 'components pmem and test, not tests' "$work/wrong.log" || fail "$(cat "$work/wrong.log")"

for file in man/man1/crashcut.1 bash-completion/completions/crashcut zsh/vendor-completions/_crashcut \
  fish/vendor_completions.d/crashcut.fish; do
  grep -q crashcut "$work/prefix/share/$file" || fail "share/$file is missing or empty"
done
exit "$status"
