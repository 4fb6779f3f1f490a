#!/bin/bash
# One campaign in one world over hosts that Open MPI reaches. In the root of a tree that is built
# (./lockstep build) and that lies at the same place on all of them:
#
#   HOSTS=alpha:4,beta:4 ./mpirun.sh
#
# The ranks meet at the first of them. Its results are in results/; mpirun's exit code is its verdict.
set -eu
: "${HOSTS:?which hosts, with how many ranks each: alpha:4,beta:4}"
first=${HOSTS%%[:,]*}
mpirun ${MPIRUN_FLAGS-} --host "$HOSTS" -x MASTER_ADDR="$first" -x MASTER_PORT="${MASTER_PORT:-29500}" \
  ./lockstep run --tier launched --seed "${SEED:-7}" --out results
