"""Which folder may include which: the directions of the house."""

# Folder -> the folders and files it may include; the longest folder that holds a file decides.
CORE, PROCESS, ENGINE, WORLD = "harness/core", "harness/process", "harness/engine", "harness/worlds"
JUDGE = "harness/judge"
ACCELERATOR, CUDA, RANK = "harness/accelerator", "harness/cuda", "harness/rank"
PYTORCH = "harness/pytorch"
PUBLIC = tuple("ddp/" + name + ".h" for name in (
    "batch_norm", "bucket_plan", "buffer_hook", "check_replicas_equal", "checkpoint", "collectives", "communication_hook", "communication_hooks", "convert_sync_batchnorm", "distributed_data_parallel", "distributed_sampler", "errors", "init",
    "join", "joinable", "launcher_report", "logging_data", "model_averaging", "options", "outputs", "post_local_sgd", "power_sgd", "random_split", "spawn", "sync_batch_norm", "version", "zero_redundancy_optimizer"))
ALL_BUT_DDP = ("reference", "harness", "scenarios", "reports", "demos", "cli", "bench", "examples", "cmake")
SUBJECT = tuple(RANK + "/" + name for name in ("rank_context.h", "tensors.h")) + tuple(
    WORLD + "/" + name for name in ("checkpoints.h", "subject.h", "subjects.h", "optimizers.h", "options.h"))
# The messages between a launcher and a process: free of torch.
LAUNCHER = ("ddp/launcher_report.h", "ddp/rendezvous/launcher.h", "ddp/rendezvous/listening.h")
SCENARIOS = ("scenarios", CORE, "reference") + SUBJECT


def ddp_floors():
    """A folder of ddp/ sees those below it, and the public headers, which lie at the root and see all of ddp/."""
    below, rules = ["base"], {"ddp": ("ddp",), "ddp/base": ("ddp/base",) + PUBLIC}
    for floor in (["backend"], ["rendezvous"], ["comm"], ["consistency"], ["collectives", "sync_batch_norm", "hooks", "reducer", "sampler", "spawn"], ["averaging", "checkpoint", "zero_redundancy"], ["replicas"],
                  ["module"]):
        for folder in floor:
            rules["ddp/" + folder] = tuple("ddp/" + each for each in (*below, folder)) + PUBLIC
        below += floor
    return rules


MAY_INCLUDE = {
    **ddp_floors(),
    "reference": ("reference",),
    "harness": ("harness",),  # A folder that is not named below: it sees nothing of ddp/ either.
    CORE: (CORE,),
    JUDGE: (JUDGE, CORE),
    PROCESS: (PROCESS, CORE),
    ENGINE: (ENGINE, CORE, PROCESS),
    RANK: (RANK, CORE, PROCESS),
    WORLD: (WORLD, CORE, PROCESS, RANK),
    WORLD + "/backends.cpp": (WORLD, CORE, PROCESS, RANK, ACCELERATOR),
    WORLD + "/cuda_backends.cpp": (WORLD, CORE, PROCESS, RANK, CUDA),
    "recorder": ("recorder", RANK, CORE),
    ACCELERATOR: (ACCELERATOR, CORE),
    CUDA: (CUDA,),
    PYTORCH: (PYTORCH, PROCESS),
    "scenarios": SCENARIOS,
    "scenarios/subjects/pytorch.cpp": SCENARIOS + (PYTORCH,),
    "scenarios/subjects/pytorch_optimizers.cpp": SCENARIOS + (PYTORCH,),
    "scenarios/subjects/pytorch_optimizers.h": SCENARIOS + (PYTORCH,),
    "scenarios/subjects/pytorch_options.cpp": SCENARIOS + (PYTORCH,),
    "scenarios/subjects/pytorch_options.h": SCENARIOS + (PYTORCH,),
    **{"scenarios/subjects/lockstep" + end: SCENARIOS + ("ddp",) for end in (".cpp", "_hooks.h", "_hooks.cpp", "_loop.cpp", "_norm_layers.cpp", "_optimizers.cpp")},
    "reports": ("reports", CORE),
    "demos": SCENARIOS + ("demos", "reports"),
    "cli": ALL_BUT_DDP,
    "cli/commands/shard.cpp": ALL_BUT_DDP + ("ddp",),
    "cli/launched.cpp": ALL_BUT_DDP + LAUNCHER,
    "bench": ALL_BUT_DDP + ("ddp", "recorder"),
    "examples": ALL_BUT_DDP + ("ddp", "recorder"),
    "cmake": ("cmake",),
    "tests": ALL_BUT_DDP + ("ddp", "recorder", "tests"),
}
