#!/usr/bin/env bash
# Everything that Lockstep says about itself on a machine with a GPU: builds with NCCL, runs the tests that take a
# GPU and the scenarios on nccl and on CUDA over Gloo, and sets SyncBatchNorm and a step's time beside PyTorch's.
#
# usage: docs/gpu/check.sh [FOLDER]
#
# What is printed is kept in FOLDER (build/gpu-check/DATE), a file a step. Exit 1: a step failed, and the others ran
# all the same. Exit 77: this machine has no NVIDIA GPU. The first call downloads 5 GB and builds: half an hour.
set -uo pipefail

root=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../..
root=$(readlink -f -- "$root")
cd -- "$root" || exit 2

if [[ ! -e /dev/nvidiactl && ! -e /dev/dxg ]]; then
  echo 'check.sh: this machine has no NVIDIA GPU, or no driver for it: nothing was run' >&2
  exit 77
fi

folder=${1:-build/gpu-check/$(date +%Y-%m-%d-%H%M%S)}
mkdir -p -- "$folder" || exit 2
failed=()

# step NAME COMMAND...
step() {
  local name=$1 begun=$SECONDS status
  shift
  printf '\n== %s: %s\n' "$name" "$*"
  "$@" 2>&1 | tee -- "$folder/$name.txt"
  status=${PIPESTATUS[0]}
  printf '== %s: exit %d, %d s\n' "$name" "$status" $((SECONDS - begun)) | tee -a -- "$folder/$name.txt"
  if ((status)); then failed+=("$name"); fi
}

versions() {
  git log -1 --format='lockstep %H' 2>/dev/null
  uname -srm
  nvidia-smi --query-gpu=index,name,driver_version,memory.total,compute_cap --format=csv
}

# The whole build, refused where NCCL cannot be in it.
build() {
  LOCKSTEP_PRESET=release ./lockstep setup && cmake --preset release -DLOCKSTEP_NCCL=ON &&
    LOCKSTEP_PRESET=release ./lockstep build
}

trace() {
  local probe=build/release/tests/ddp/nccl_probe
  if ! command -v nsys >/dev/null; then
    echo 'nsys is not installed: no trace of kernels, only what an instance times itself'
    "$probe" load overlap=nccl
    return
  fi
  nsys profile --trace=cuda,nvtx --force-overwrite=true --output="$folder/overlap" "$probe" load overlap=nccl &&
    nsys stats --report cuda_gpu_trace "$folder/overlap.nsys-rep"
}

step versions versions
step setup ./lockstep setup --gpu --peer
step build build
step doctor ./lockstep doctor
# Worlds on the GPUs: nccl and CUDA over Gloo, ranks that share a GPU, SyncBatchNorm beside PyTorch's, overlap.
step tests ctest --test-dir build/release -L gpu --verbose --no-tests=error
step nccl ./lockstep run --backend nccl --tier warm,cold --world 1,2,4
step gloo_cuda ./lockstep run --backend gloo_cuda --tier warm,cold --world 1,2,4
# Launched worlds, whose ranks share what there is.
step launched ./lockstep launch -n 2 ./lockstep run --tier launched --backend nccl,gloo_cuda gradients replicas
step step_time bench/ddp_step.py --device cuda --rounds 11
step overlap trace

printf '\nkept in %s\n' "$folder"
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[*]}"
  exit 1
fi
echo 'all held'
