#!/usr/bin/env bash
# Packs what docs/gpu/check.sh takes, so that it runs on a machine that has PyTorch and a GPU, and neither this tree nor
# a network nor a compiler: the program, two probes and a benchmark, stripped, with the libraries that neither PyTorch nor
# glibc brings; check.sh and the tests that it runs.
#
# usage: docs/gpu/bundle.sh [--build FOLDER] [--mistaken FOLDER] [FILE]
#
#   --build FOLDER      what was built with NCCL; build/release
#   --mistaken FOLDER   the same with the mutant device_sum_not_awaited planted, for the step `race`
#   FILE                lockstep-gpu.tar.gz
#
# There: tar xzf lockstep-gpu.tar.gz && lockstep-gpu/docs/gpu/check.sh. PyTorch is to be of the version that the
# program was built with, which the file BUNDLE names.
set -euo pipefail

root=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../..
root=$(readlink -f -- "$root")

die() {
  echo "bundle.sh: $1" >&2
  exit 2
}

build=$root/build/release mistaken='' file=lockstep-gpu.tar.gz
while (($#)); do
  case $1 in
    --build) build=$(readlink -f -- "${2:-}") && shift 2 || die '--build wants a folder' ;;
    --mistaken) mistaken=$(readlink -f -- "${2:-}") && shift 2 || die '--mistaken wants a folder' ;;
    -*) sed -n '6,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 2 ;;
    *) file=$1 && shift ;;
  esac
done

programs=(cli/lockstep cli/lockstep-torch tests/ddp/nccl_probe tests/worlds/one_gpu_environment bench/bench_ddp_step)
plugins=(harness/cuda/plugin/liblockstep_harness_nccl.so ddp/backend/nccl/liblockstep_nccl.so)
for each in "${programs[@]}" "${plugins[@]}"; do
  [[ -e $build/$each ]] || die "$build holds no $each: build it with -DLOCKSTEP_NCCL=ON (docs/gpu.md)"
done
torch=$(sed -n 's/^LOCKSTEP_TORCH:[A-Z]*=//p' "$build/CMakeCache.txt")
version=$(sed -n "s/^__version__ = '\(.*\)'/\1/p" "$torch/version.py")
[[ -n $version ]] || die "$torch/version.py does not tell the version of PyTorch"

holder=$(mktemp -d)
trap 'rm -rf -- "$holder"' EXIT
place=$holder/lockstep-gpu
mkdir -p -- "$place/lib"
for each in "${programs[@]}"; do
  mkdir -p -- "$place/build/release/${each%/*}"
  strip -o "$place/build/release/$each" "$build/$each"
done
if [[ -n $mistaken ]]; then
  mkdir -p -- "$place/build/mistaken/cli"
  for each in cli/lockstep cli/lockstep-torch; do strip -o "$place/build/mistaken/$each" "$mistaken/$each"; done
fi
for each in "${plugins[@]}"; do strip --strip-unneeded -o "$place/lib/${each##*/}" "$build/$each"; done

# What the loader takes from elsewhere than PyTorch's folders and glibc.
glibc='^(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|util|resolv)\.so)'
for each in "${programs[@]}"; do ldd "$build/$each"; done |
  sed -n 's/^\s*\(\S*\) => \(\/\S*\) .*/\1 \2/p' | sort -u |
  while read -r name path; do
    if [[ ! $name =~ $glibc && $path != "${torch%/*}"/* ]]; then cp -L -- "$path" "$place/lib/$name"; fi
  done

cd -- "$root"
cp --parents docs/gpu/check.sh ddp/backend/gpu_device_files.h bench/ddp_step.py bench/ddp_step_in_pytorch.py \
  tests/ddp/test_nccl.py \
  tests/ddp/test_nccl_on_gpus.py tests/ddp/sync_batch_norm/sync_batch_norm_in_pytorch.py "$place"
{
  git log -1 --format='lockstep %H' 2>/dev/null || echo 'lockstep, of no commit'
  printf 'pytorch %s\n' "$version"
} >"$place/BUNDLE"
cd -- "$OLDPWD"
tar -C "$holder" -czf "$file" lockstep-gpu
printf '%s: %s, for PyTorch %s\n' "$file" "$(du -h -- "$file" | cut -f1)" "$version"
