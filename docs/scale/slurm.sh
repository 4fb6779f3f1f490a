#!/bin/bash
# One campaign over ten tasks of a Slurm array, and a job that puts it together. In the root of a
# tree that is built (./lockstep build) and that all machines see:
#
#   array=$(SEED=7 sbatch --parsable slurm.sh)
#   sbatch --dependency=afterany:$array --output=report.log --wrap './lockstep report shards/*'
#
#SBATCH --job-name=lockstep
#SBATCH --array=1-10
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00
#SBATCH --output=lockstep-%a.log
set -eu
: "${SEED:?says which cases all tasks draw}"
./lockstep run --seed "$SEED" --shard auto --out "shards/$SLURM_ARRAY_TASK_ID"
