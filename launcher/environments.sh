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

# What .venv, .venv-peer or .venv-pages must hold: the requirements, less their comments.
requirements() { grep -Ev '^[[:space:]]*(#|$)' -- "$root/requirements${1#.venv}.txt"; }

# Note [An environment is complete]
# Its file .complete is written last and holds the requirements that were installed. An environment
# without it, or with other requirements, is a half-made or an old one, and is made anew.
is_complete() {
  local complete=$root/$1/.complete
  [[ -r $complete && $(<"$complete") == "$(requirements "$1")" ]]
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

# make_environment NAME WHAT SIZE [PIP OPTION...]: makes .venv or .venv-peer anew, with its
# requirements in it.
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

# Says that an environment is whole: the last that is done to it.
mark_complete() {
  { requirements "$1" >"$root/$1/.partial" && mv -- "$root/$1/.partial" "$root/$1/.complete"; } ||
    die "cannot write $1/.complete" "$(free_mb) MB are free there."
}

# Whether NVIDIA's libraries are in .venv: by a file as above.
is_gpu_complete() {
  local complete=$root/.venv/.complete-gpu
  [[ -r $complete && $(<"$complete") == "$(requirements .venv-gpu)" ]]
}

make_venv() {
  is_complete .venv && return
  # A .venv that is made anew keeps them; ./lockstep reads it.
  # shellcheck disable=SC2034
  if [[ -e $root/.venv/.complete-gpu ]]; then with_gpu=1; fi
  make_environment .venv LibTorch '0.6 GB to download, 1.3 GB on disk' --no-deps
  rm -f -- "$root"/build/*/build.ninja  # So that every build looks for LibTorch again.
  mark_complete .venv
}

make_gpu() {
  if is_gpu_complete; then
    say "NVIDIA's libraries are complete in .venv"
    return
  fi
  say "installing NVIDIA's libraries in .venv (1.9 GB to download, 2.7 GB on disk)"
  pip_installs .venv requirements-gpu.txt "$logs/pip-gpu.log" --no-deps ||
    pip_failed "NVIDIA's libraries" "$logs/pip-gpu.log"
  rm -f -- "$root"/build/*/build.ninja  # So that every build looks for NCCL again.
  { requirements .venv-gpu >"$root/.venv/.partial" && mv -- "$root/.venv/.partial" "$root/.venv/.complete-gpu"; } ||
    die 'cannot write .venv/.complete-gpu' "$(free_mb) MB are free there."
}

make_peer() {
  if is_complete .venv-peer; then
    say '.venv-peer is complete'
    return
  fi
  make_environment .venv-peer PyTorch '2.7 GB to download, 4.7 GB on disk'
  rm -f -- "$root"/build/*/build.ninja  # So that every build looks for PyTorch again.
  mark_complete .venv-peer
}

make_pages() {
  if is_complete .venv-pages; then
    say '.venv-pages is complete'
    return
  fi
  make_environment .venv-pages "the driver of a browser" '55 MB to download, 0.2 GB on disk'
  mark_complete .venv-pages
}

make_docs() {
  is_complete .venv-docs && return
  require_disk "$disk_needed_for_docs_mb"
  make_environment .venv-docs 'the builder of the site' '40 MB to download, 0.2 GB on disk'
  mark_complete .venv-docs
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
  if ((with_gpu)) && ! is_gpu_complete; then needed=$((needed + disk_needed_for_gpu_mb)); fi
  if ((needed)); then require_disk "$needed"; fi
}
