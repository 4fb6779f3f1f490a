#!/usr/bin/env bash
# Every tool that ./lockstep calls during set-up, as one script that runs the tool of the name it
# is called by. It notes its call in $FAKE/calls and does what the files in $FAKE tell it to.
set -u
name=${0##*/}
echo "$name $*" >>"$FAKE/calls"

told() { [[ -e $FAKE/$1 ]]; }

case $name in
  id) if told not_root; then echo 1000; else echo 0; fi ;;
  sudo)
    told no_sudo && exit 1
    while [[ ${1:-} == -* ]]; do shift; done
    exec "$@"
    ;;
  dpkg-query)
    for package in "$@"; do
      if [[ $package != -* ]] && ! grep -qsxF "$package" "$FAKE/missing"; then
        echo "$package installed"
      fi
    done
    ;;
  apt-get)
    if [[ " $* " == *' update '* ]]; then told apt_update_fails && exit 100; fi
    if [[ " $* " == *' install '* ]]; then
      if told apt_install_fails; then
        echo 'E: Unable to fetch some archives'
        exit 100
      fi
      rm -f "$FAKE/missing"
    fi
    ;;
  df) printf 'Filesystem 1024-blocks Used Available Capacity Mounted\n/dev/fake 1 1 %s 1%% /\n' "$(<"$FAKE/free_kb")" ;;
  python)
    case $* in
      --version) echo 'Python 3.9.2' ;;
      *version_info*) told old_python && exit 1 ;;
      *ensurepip*) told no_ensurepip && exit 1 ;;
      *'-m venv '*)
        folder=${*: -1}
        mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python"
        ;;
      *'-m pip install '*)
        echo 'Collecting torch'
        echo half >"${0%/bin/python}/half_of_torch"
        if told pip_waits; then
          echo here >"$FAKE/pip_has_begun"
          cat "$FAKE/pip_waits" >/dev/null
        fi
        if told pip_fails; then
          cat "$FAKE/pip_fails"
          exit 1
        fi
        mv "${0%/bin/python}/half_of_torch" "${0%/bin/python}/torch"
        ;;
    esac
    exit 0
    ;;
  cmake)
    if told cmake_fails; then
      echo 'CMake Error: no such thing'
      exit 1
    fi
    mkdir -p "build/$2"
    echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >"build/$2/CMakeCache.txt"
    echo "LOCKSTEP_TORCH:PATH=$PWD/.venv/lib/torch" >>"build/$2/CMakeCache.txt"
    touch "build/$2/build.ninja"
    ;;
  ninja)
    if [[ " $* " == *' -n '* ]]; then
      if [[ -e $2/cli/lockstep ]]; then echo 'ninja: no work to do.'; fi
      exit 0
    fi
    echo '[1/2] Building ddp/reducer/reducer.cpp'
    if told ninja_fails; then
      cat "$FAKE/ninja_fails"
      exit 1
    fi
    mkdir -p "$2/cli" && cp "$FAKE/program" "$2/cli/lockstep"
    echo '[2/2] Linking cli/lockstep'
    ;;
  ctest)
    printf '%s\n' "$@"
    echo '100% tests passed, 0 tests failed out of 3'
    if told ctest_fails; then exit 8; fi
    ;;
esac
exit 0
