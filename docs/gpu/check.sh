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
# summary.txt how each ended, and of one that failed why. Exit 1: a step failed, or there was no time for it. Exit 77:
# this machine has no NVIDIA GPU. The first call downloads 5 GB and builds: half an hour. Where the network or the time
# is missing, docs/gpu/bundle.sh packs what is built elsewhere, with this script; there it leaves out what takes the
# tree, and finds the machine's own PyTorch by asking LOCKSTEP_PYTHON, or python3 and python, where it lies.
set -uo pipefail

root=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../..
root=$(readlink -f -- "$root")
cd -- "$root" || exit 2

die() {
  echo "check.sh: $1" >&2
  exit 2
}

# Name and limit in seconds; a step NAME is what the function step_NAME does.
steps='versions:60 setup:1500 build:1800 doctor:60 probe:90 first:180 warm:180 nccl:420 tests:420 step_time:240
       gloo_cuda:240 race:420 overlap:120 launched:240 nccl_cold:1800'
built=build/release
# What docs/gpu/bundle.sh writes: the commit, and the version of PyTorch that it was built with.
bundle=BUNDLE
if [[ -e $bundle ]]; then
  for each in setup:1500 build:1800; do steps=${steps/$each/}; done
  if [[ ! -e build/mistaken ]]; then steps=${steps/race:420/}; fi
fi

# python_with_torch: a Python, the folder of its PyTorch, and its version, a line each.
python_with_torch() {
  local python pythons=(python3 python)
  if [[ -n ${LOCKSTEP_PYTHON:-} ]]; then pythons=("$LOCKSTEP_PYTHON"); fi
  for python in "${pythons[@]}"; do
    if "$python" - 2>/dev/null <<'END'; then return; fi
import importlib.util, os, runpy, sys
folder = os.path.dirname(importlib.util.find_spec("torch").origin)
print(sys.executable, folder, runpy.run_path(os.path.join(folder, "version.py"))["__version__"], sep="\n")
END
  done
  return 1
}

# In a bundle: the loader finds the libraries of the machine's own PyTorch, and those beside this script.
use_pytorch_of_this_machine() {
  local found wanted folders
  wanted=$(sed -n 's/^pytorch //p' "$bundle")
  found=$(python_with_torch) || die "no Python here has PyTorch, and this bundle takes $wanted: set LOCKSTEP_PYTHON"
  mapfile -t found <<<"$found"
  if [[ ${found[2]} != "$wanted" ]]; then
    die "${found[0]} has PyTorch ${found[2]}, and this bundle takes $wanted: set LOCKSTEP_PYTHON to one that has it"
  fi
  folders=$(printf ':%s' "${found[1]}"/lib "${found[1]%/*}"/nvidia/*/lib)
  export LOCKSTEP_PYTHON=${found[0]} LD_LIBRARY_PATH="$root/lib$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

step_versions() {
  if [[ -e $bundle ]]; then cat "$bundle"; else git log -1 --format='lockstep %H' 2>/dev/null; fi
  uname -srm
  nvidia-smi --query-gpu=index,name,driver_version,memory.total,compute_cap --format=csv ||
    compgen -G '/dev/nv*' || compgen -G '/dev/dxg'  # Tegra has no nvidia-smi of this kind.
  if [[ -e $bundle ]]; then
    "$LOCKSTEP_PYTHON" -c 'import torch as t; print("pytorch", t.__version__, "sees", t.cuda.device_count(), "GPUs")'
  fi
}

step_setup() { ./lockstep setup --gpu --peer; }

# The whole build, refused where NCCL cannot be in it.
step_build() {
  LOCKSTEP_PRESET=release ./lockstep setup && cmake --preset release -DLOCKSTEP_NCCL=ON &&
    LOCKSTEP_PRESET=release ./lockstep build
}

# The program as it was built: ./lockstep itself would set up and build what it misses.
lockstep() { "$built/cli/lockstep" "$@"; }

step_doctor() { lockstep doctor; }

# Ten seconds without the harness: NCCL is loaded, GPUs are seen, a stream is late, and one rank trains.
step_probe() {
  "$built/tests/ddp/nccl_probe" load gpus hold &&
    lockstep launch -n 1 "$built/tests/ddp/nccl_probe" load train=cpu:gloo,cuda:nccl
}

# A minute that tells whether the rest is worth its time: two ranks, made for each case, train over NCCL.
step_first() {
  lockstep run gradients.match_single_process --backend nccl --tier cold --world 2 --cases 4 --timeout 60
}

# The same in a world that is kept from case to case, as most of what follows.
step_warm() {
  lockstep run gradients.match_single_process --backend nccl --tier warm --world 2 --cases 10 --timeout 60
}

# Ranks that share a GPU or have their own, SyncBatchNorm beside PyTorch's, overlap, a launcher's ranks. What is skipped
# here is printed with its reason.
step_tests() {
  local class status=0 failed=0
  export LOCKSTEP_NCCL_BUILT=1 LOCKSTEP_NCCL_PROBE=$built/tests/ddp/nccl_probe
  export LOCKSTEP_NCCL_ENVIRONMENT=$built/tests/worlds/one_gpu_environment LOCKSTEP_PEER=${LOCKSTEP_PYTHON:-}
  for class in OnGpus OnSeveralGpus OnGpusBesidePyTorch; do
    "${LOCKSTEP_PYTHON:-python3}" -B tests/ddp/test_nccl_on_gpus.py "$class"
    status=$?
    if ((status && (status != 77))); then failed=1; fi
  done
  return "$failed"
}

# A mistake whose race shows because results come late (docs/gpu.md), in a clone of this tree; in a bundle in a program
# that has it.
step_race() {
  if [[ ! -e $bundle ]]; then
    tests/mutants/try.py --backend nccl --jobs "$(nproc)"
    return
  fi
  build/mistaken/cli/lockstep run gradients.match_single_process --backend nccl --tier warm --world 2 --timeout 60
  if (($? != 1)); then
    echo 'the program with a race of streams did not fail'
    return 1
  fi
}

step_nccl() { lockstep run --backend nccl --tier warm --world 1,2,4 --timeout 120; }
step_step_time() { "${LOCKSTEP_PYTHON:-python3}" bench/ddp_step.py --device cuda --rounds 11 --build "$built"; }

step_overlap() {
  local probe=$built/tests/ddp/nccl_probe
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
  lockstep launch -n 2 "$built/cli/lockstep" run --tier launched --backend nccl,gloo_cuda gradients replicas
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
    -*) sed -n '6,18s/^# \{0,1\}//p' docs/gpu/check.sh && exit 2 ;;
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

if [[ -e $bundle ]]; then use_pytorch_of_this_machine; fi

folder=${folder:-build/gpu-check/$(date +%Y-%m-%d-%H%M%S)}
mkdir -p -- "$folder" || exit 2
folder=$(readlink -f -- "$folder")
summary=$folder/summary.txt
: >"$summary" || exit 2
all_held=1

# record NAME HOW SECONDS
record() {
  printf '%-12s %-34s %5d s\n' "$1" "$2" "$3" >>"$summary"
  printf '== %s: %s, %d s\n' "$1" "$2" "$3"
}

# What is wrong by what a step printed: what a run found, or else the last lines.
reason_in() {
  local found
  found=$(grep -A 1 '^✗' -- "$1" | grep -v '^--$' | head -n 6)
  if [[ -z $found ]]; then found=$(grep -v '^ *$' -- "$1" | tail -n 4); fi
  printf '%s\n' "${found:-it printed nothing}" | cut -c 1-300 | sed 's/^/    /'
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
    record "$name" 'NOT RUN: no time was left' 0
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
  record "$name" "$how" $((SECONDS - begun))
  if ((status)); then
    reason_in "$folder/$name.txt" >>"$summary"
    all_held=0
  fi
done

printf '\n'
cat -- "$summary"
printf 'kept in %s\n' "$folder"
if ((!all_held)); then exit 1; fi
echo 'all held'
