"""Records what each rank of a data-parallel training in PyTorch does, for `lockstep judge`. The program stays as it is,

    torchrun --nproc-per-node 2 -m lockstep_recorder --record FOLDER train.py ARGUMENTS

or has two lines more,

    import lockstep_recorder
    lockstep_recorder.start()   # into the folder that LOCKSTEP_RECORD names; nothing where it names none

and `lockstep_recorder.watch(model)` where gradients are averaged without DistributedDataParallel.

Each rank writes one file, FOLDER/rank0.history, in the format of docs/protocol.md, section 5. A rank that is killed leaves
what it has written. Needs torch alone, and that only once it records. The program runs as it does without a recorder: what
cannot be recorded is a fact `not recorded` in the history, no object of the program is asked for anything that the program
does not ask for, and no random number is drawn.

For `lockstep judge FOLDER --against FOLDER`: LOCKSTEP_RECORD_VALUES=10 records values of parameters, gradients and buffers
in the first 10 steps, besides their digests. LOCKSTEP_RECORD_PERTURB=1 moves parameters and inputs of models by one unit in
the last place, up or down as drawn from this number, and records into FOLDER/perturbed-1.
"""
from ._launch import RANK_VARIABLES, start, watch

__all__ = ["RANK_VARIABLES", "start", "watch"]
