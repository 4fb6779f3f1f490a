# The Python environments that ./lockstep makes: .venv, which holds LibTorch and which every build
# needs, with NVIDIA's libraries in it where GPUs are to be used; and .venv-peer, which holds PyTorch with all that it depends on and which only what compares
# with PyTorch needs; .venv-pages, with which the tests read pages in a browser; and .venv-docs, which builds the site. ./lockstep reads this file, and its words (say, die, logged, failed) are used
# here.
# shellcheck shell=bash
# shellcheck disable=SC2154  # root, logs, build and with_... are ./lockstep's

# Measured: .venv takes 1.3 GB, pip's download of it 0.6 GB for a while, a build 1 GB; .venv-peer takes
# 4.7 GB and its download 2.7 GB; .venv-pages takes 0.2 GB with its download; NVIDIA's libraries in .venv 2.7 GB and their download 1.9 GB.
disk_needed_mb=3000
disk_needed_for_build_mb=1200
disk_needed_for_peer_mb=7600
disk_needed_for_gpu_mb=4700
disk_needed_for_pages_mb=300
disk_needed_for_docs_mb=300

# requirements NAME [PART]: what an environment, or a part of .venv, must hold, less its comments.
requirements() { grep -Ev '^[[:space:]]*(#|$)' -- "$root/requirements${1#.venv}${2:-}.txt"; }

# Note [An environment is complete]
# Its file .complete is written last and holds the requirements that were installed. An environment
# without it, or with other requirements, is a half-made or an old one, and is made anew. The file of
# NVIDIA's libraries in .venv is .complete-gpu.
is_complete() {
  local complete=$root/$1/.complete${2:-}
  [[ -r $complete && $(<"$complete") == "$(requirements "$@")" ]]
}

# Prints the first Python that can make an environment, and 1 if there is none.
find_python() {
  local candidate why=() candidates=(/usr/bin/python3 python3)
  if [[ -n ${LOCKSTEP_PYTHON:-} ]]; then candidates=("$LOCKSTEP_PYTHON"); fi
  for candidate in "${candidates[@]}"; do
    if ! command -v "$candidate" >/dev/null; then
      why+=("$candidate is not there")
    elif ! "$candidate" -I -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      why+=("$candidate is $("$candidate" --version 2>&1)")
    elif ! "$candidate" -I -c 'import ensurepip, venv' 2>/dev/null; then
      why+=("$candidate has no ensurepip: install its venv package (python3-venv on Debian)")
    else
      echo "$candidate"
      return
    fi
  done
  say 'LibTorch comes in a Python wheel, and installing it needs Python 3.10 to 3.13 with venv and ensurepip'
  printf '  %s\n' "${why[@]}" >&2
  return 1
}

# make_environment NAME WHAT SIZE [PIP OPTION...]: makes an environment anew, with its requirements in it.
make_environment() {
  local name=$1 what=$2 size=$3 folder=$root/$1 python
  local venv_log=$logs/${name#.}.log pip_log=$logs/pip${name#.venv}.log
  shift 3
  python=$(find_python) || exit 2
  say "installing $what in $name ($size)"
  rm -rf -- "$folder" "$root/build/tmp"
  mkdir -p -- "$root/build/tmp"
  logged step "$venv_log" "$python" -I -m venv "$folder" ||
    failed "Python could not make $name" "$venv_log" 'Mend what it says, and call again.'

  pip_installs "$name" "requirements${name#.venv}.txt" "$pip_log" "$@" || {
    rm -rf -- "$folder"
    pip_failed "$what" "$pip_log"
  }
  mark_complete "$name"
}

# make_unless_complete NAME WHAT SIZE: the same, or says that it is there.
make_unless_complete() {
  if is_complete "$1"; then say "$1 is complete"; else make_environment "$@"; fi
}

# pip_installs NAME REQUIREMENTS LOG [PIP OPTION...]: into .venv or .venv-peer.
pip_installs() {
  local pip status log=$3
  mkdir -p -- "$root/build/tmp"
  # The temporary folder is ours because /tmp is often too small for the wheels. pip's cache is off
  # because it would hold the wheels once more.
  pip=(env TMPDIR="$root/build/tmp" PIP_USER=0 "$root/$1/bin/python" -I -m pip install --no-cache-dir
    --disable-pip-version-check "${@:4}" -r "$root/$2")
  rm -f -- "$log"
  if [[ -t 2 ]]; then
    "${pip[@]}" --log "$log" </dev/null >&2  # With its own bar.
  else
    logged step "$log" "${pip[@]}"
  fi
  status=$?
  rm -rf -- "$root/build/tmp"
  return "$status"
}

pip_failed() {
  failed "pip could not install $1" "$2" \
    'Check the network (and the proxy and index that pip is told to use), and call again.'
}

# Says that an environment, or a part of it, is whole: the last that is done to it.
mark_complete() {
  if [[ $1 == .venv || $1 == .venv-peer ]]; then
    rm -f -- "$root"/build/*/build.ninja  # So that every build looks again for what it holds.
  fi
  { requirements "$@" >"$root/$1/.partial" && mv -- "$root/$1/.partial" "$root/$1/.complete${2:-}"; } ||
    die "cannot write $1/.complete${2:-}" "$(free_mb) MB are free there."
}

make_venv() {
  is_complete .venv && return
  # A .venv that is made anew keeps them; ./lockstep reads it.
  # shellcheck disable=SC2034
  if [[ -e $root/.venv/.complete-gpu ]]; then with_gpu=1; fi
  make_environment .venv LibTorch '0.6 GB to download, 1.3 GB on disk' --no-deps
}

make_gpu() {
  if is_complete .venv -gpu; then
    say "NVIDIA's libraries are complete in .venv"
    return
  fi
  say "installing NVIDIA's libraries in .venv (1.9 GB to download, 2.7 GB on disk)"
  pip_installs .venv requirements-gpu.txt "$logs/pip-gpu.log" --no-deps ||
    pip_failed "NVIDIA's libraries" "$logs/pip-gpu.log"
  mark_complete .venv -gpu
}

make_peer() { make_unless_complete .venv-peer PyTorch '2.7 GB to download, 4.7 GB on disk'; }

make_pages() { make_unless_complete .venv-pages 'the driver of a browser' '55 MB to download, 0.2 GB on disk'; }

make_docs() {
  is_complete .venv-docs && return
  require_disk "$disk_needed_for_docs_mb"
  make_environment .venv-docs 'the builder of the site' '40 MB to download, 0.2 GB on disk'
}

# require_disk MB: ends with a sentence where less is free.
require_disk() {
  local free
  free=$(free_mb)
  if ((${free:-$1} < $1)); then
    die "the set-up needs $1 MB of disk, and $free MB are free in $root" 'Make room and call again.'
  fi
}

# Before anything is installed or built: by what is missing.
check_disk() {
  local needed=0
  if [[ ! -e $build/build.ninja ]]; then needed=$disk_needed_for_build_mb; fi
  if ! is_complete .venv; then needed=$disk_needed_mb; fi
  if ((with_peer)) && ! is_complete .venv-peer; then needed=$((needed + disk_needed_for_peer_mb)); fi
  if ((with_pages)) && ! is_complete .venv-pages; then needed=$((needed + disk_needed_for_pages_mb)); fi
  if ((with_gpu)) && ! is_complete .venv -gpu; then needed=$((needed + disk_needed_for_gpu_mb)); fi
  if ((needed)); then require_disk "$needed"; fi
}
