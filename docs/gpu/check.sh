#!/usr/bin/env bash
# Everything that Lockstep says about itself on a machine with a GPU: builds with NCCL, runs the tests that take a
# GPU and the scenarios on nccl and on CUDA over Gloo, plants a race of streams, and sets SyncBatchNorm and a step's
# time beside PyTorch's.
#
# usage: docs/gpu/check.sh [--minutes N] [--only STEP,...] [--without STEP,...] [FOLDER]
#
#   --minutes N      ends after about so long: steps that do not fit are cut short or left out
#   --only STEPS     these alone; --without STEPS: all but these. --steps lists them, with their limits in seconds
#
# Steps come in the order of what they tell for their time, each with a limit of its own, and one that fails or hangs
# keeps none of the others. What is printed is kept in FOLDER (build/gpu-check/DATE), a file a step, and in
# summary.txt how each ended. Exit 1: a step failed, or there was no time for it. Exit 77: this machine has no NVIDIA
# GPU. The first call downloads 5 GB and builds: half an hour. Where the network or the time is missing, bring a tree
# that is set up and built for its place, and call with --without setup,build; libraries of NVIDIA that lie elsewhere
# are found along LD_LIBRARY_PATH.
set -uo pipefail

root=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../..
root=$(readlink -f -- "$root")
cd -- "$root" || exit 2

die() {
  echo "check.sh: $1" >&2
  exit 2
}

# Name and limit in seconds; a step NAME is what the function step_NAME does.
steps='versions:60 setup:1500 build:1800 doctor:60 first:180 nccl:420 tests:420 step_time:240 gloo_cuda:240 race:420
       overlap:120 launched:240 nccl_cold:1800'

step_versions() {
  git log -1 --format='lockstep %H' 2>/dev/null
  uname -srm
  nvidia-smi --query-gpu=index,name,driver_version,memory.total,compute_cap --format=csv ||
    compgen -G '/dev/nv*' || compgen -G '/dev/dxg'  # Tegra has no nvidia-smi of this kind.
}

step_setup() { ./lockstep setup --gpu --peer; }

# The whole build, refused where NCCL cannot be in it.
step_build() {
  LOCKSTEP_PRESET=release ./lockstep setup && cmake --preset release -DLOCKSTEP_NCCL=ON &&
    LOCKSTEP_PRESET=release ./lockstep build
}

# The program as it was built: ./lockstep itself would set up and build what it misses.
lockstep() { build/release/cli/lockstep "$@"; }

step_doctor() { lockstep doctor; }

# A minute that tells whether the rest is worth its time: two ranks train over NCCL.
step_first() { lockstep run gradients --backend nccl --tier warm --world 2 --cases 10 --timeout 60; }

# Ranks that share a GPU or have their own, SyncBatchNorm beside PyTorch's, overlap, a launcher's ranks.
step_tests() {
  ctest --test-dir build/release -L gpu --verbose --no-tests=error --output-log "$folder/ctest.txt" || return
  if grep -q 'Skipped' "$folder/ctest.txt"; then
    echo 'a test that takes a GPU was skipped on a machine that has one'
    return 1
  fi
}

# A mistake whose race shows because results come late (docs/gpu.md), in a clone of this tree.
step_race() { tests/mutants/try.py --backend nccl --jobs "$(nproc)"; }

step_nccl() { lockstep run --backend nccl --tier warm --world 1,2,4 --timeout 120; }
step_step_time() { bench/ddp_step.py --device cuda --rounds 11; }

step_overlap() {
  local probe=build/release/tests/ddp/nccl_probe
  if ! command -v nsys >/dev/null; then
    echo 'nsys is not installed: no trace of kernels, only what an instance times itself'
    "$probe" load overlap=nccl
    return
  fi
  nsys profile --trace=cuda,nvtx --force-overwrite=true --output="$folder/overlap" "$probe" load overlap=nccl &&
    nsys stats --report cuda_gpu_trace "$folder/overlap.nsys-rep"
}

step_gloo_cuda() { lockstep run --backend gloo_cuda --tier warm --world 1,2,4 --timeout 120; }
# Launched worlds, whose ranks share what there is.
step_launched() {
  lockstep launch -n 2 build/release/cli/lockstep run --tier launched --backend nccl,gloo_cuda gradients replicas
}
step_nccl_cold() { lockstep run --backend nccl,gloo_cuda --tier cold --world 1,2,4 --timeout 120; }

# step_names LIST: those of LIST, "a,b", if all of them are steps.
step_names() {
  local name
  for name in ${1//,/ }; do
    [[ " ${steps//$'\n'/ } " == *" $name:"* ]] || die "no step is called '$name': --steps lists them"
    printf '%s ' "$name"
  done
}

minutes=0 only='' without='' folder=''
while (($#)); do
  case $1 in
    --steps) printf '%s\n' $steps && exit 0 ;;
    --minutes) minutes=${2:-} && shift 2 || die '--minutes wants a number' ;;
    --only) only=$(step_names "${2:-}") && shift 2 || exit 2 ;;
    --without) without=$(step_names "${2:-}") && shift 2 || exit 2 ;;
    --run-step) # What this script calls itself with.
      folder=$2
      "step_$3"
      exit
      ;;
    -*) sed -n '6,17s/^# \{0,1\}//p' docs/gpu/check.sh && exit 2 ;;
    *) folder=$1 && shift ;;
  esac
done
[[ $minutes =~ ^[0-9]+$ ]] || die "--minutes wants a whole number, got '$minutes'"

# The library's own rule, in its own words.
has_gpu() {
  local file
  for file in $(grep -o '"/dev/[^"]*"' ddp/backend/gpu_device_files.h | tr -d '"'); do
    if [[ -e $file ]]; then return 0; fi
  done
  return 1
}

if ! has_gpu; then
  echo 'check.sh: this machine has no NVIDIA GPU, or no driver for it: nothing was run' >&2
  exit 77
fi

folder=${folder:-build/gpu-check/$(date +%Y-%m-%d-%H%M%S)}
mkdir -p -- "$folder" || exit 2
folder=$(readlink -f -- "$folder")
summary=$folder/summary.txt
: >"$summary" || exit 2
all_held=1

# told NAME HOW SECONDS
told() {
  printf '%-12s %-34s %5d s\n' "$1" "$2" "$3" >>"$summary"
  printf '== %s: %s, %d s\n' "$1" "$2" "$3"
}

# A step is a process group, which ends with its limit, or with this script. It writes to a file and not to a pipe,
# which anything left behind would hold open.
step_pid=
trap 'if [[ -n $step_pid ]]; then kill "$step_pid" 2>/dev/null; fi' EXIT
trap 'exit 130' INT TERM
for each in $steps; do
  name=${each%:*} limit=${each#*:}
  if [[ -n $only && " $only" != *" $name "* ]] || [[ " $without" == *" $name "* ]]; then continue; fi
  if ((minutes)) && ((limit > minutes * 60 - SECONDS)); then limit=$((minutes * 60 - SECONDS)); fi
  if ((limit < 10)); then
    told "$name" 'NOT RUN: no time was left' 0
    all_held=0
    continue
  fi
  printf '\n== %s, at most %d s\n' "$name" "$limit"
  begun=$SECONDS
  : >"$folder/$name.txt"
  timeout --kill-after=20 "$limit" bash docs/gpu/check.sh --run-step "$folder" "$name" \
    </dev/null >"$folder/$name.txt" 2>&1 &
  step_pid=$!
  tail -n +1 -f --pid="$step_pid" -- "$folder/$name.txt" &
  # A wait ends with a signal to this script, which a program in the foreground would hold up.
  wait "$step_pid"
  status=$?
  step_pid=
  wait
  how=held
  if ((status == 124 || status == 137)); then how="TIMED OUT after $limit s"; elif ((status)); then how="FAILED: exit $status"; fi
  told "$name" "$how" $((SECONDS - begun))
  if ((status)); then all_held=0; fi
done

printf '\n'
cat -- "$summary"
printf 'kept in %s\n' "$folder"
if ((!all_held)); then exit 1; fi
echo 'all held'
