#!/bin/bash
# One campaign in one world over two hosts with four ranks each. In the root of a tree that is built
# (./lockstep build) and that all hosts see:
#
#   sbatch slurm_launched.sh
#
# Ranks meet on the step's first host. Rank 0's results are in results/; the job's exit code is its verdict.
#
#SBATCH --job-name=lockstep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --time=01:00:00
#SBATCH --output=lockstep-launched.log
set -eu
srun --kill-on-bad-exit=0 ./lockstep run --tier launched --seed "${SEED:-7}" --out results
