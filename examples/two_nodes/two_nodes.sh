#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --time=01:00:00
# Two nodes with four ranks each. srun says which rank a process is; a failing rank ends the job.
srun --kill-on-bad-exit=1 build/cifar10 --data cifar-10-batches-bin --checkpoint cifar10.pt
