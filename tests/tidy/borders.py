"""The folders that each folder may include: the directions of the house."""

# Folder -> the folders and files it may include; the longest folder that holds a file decides.
BASE, HISTORY, VERDICT, CASES = "harness/base", "harness/history", "harness/verdict", "harness/cases"
ARCHIVE, PROCESS, CAMPAIGN, WORLD = "harness/archive", "harness/process", "harness/campaign", "harness/worlds"
RECORDED, INVARIANTS, TIMELINE = "harness/recorded", "harness/invariants", "harness/timeline"
ACCELERATOR, CUDA, RANK = "harness/accelerator", "harness/cuda", "harness/rank"
PYTORCH = "harness/pytorch"
# Floors without torch and without system calls: each sees those below it.
JUDGED = (BASE, HISTORY, VERDICT, CASES)
PUBLIC = tuple("ddp/" + name + ".h" for name in (
    "batch_norm", "bucket_plan", "buffer_hook", "communication_hook", "communication_hooks", "convert_sync_batchnorm", "distributed_data_parallel", "distributed_sampler", "errors", "init",
    "join", "joinable", "launcher_report", "logging_data", "options", "outputs", "power_sgd", "sync_batch_norm", "version"))
ALL_BUT_DDP = ("reference", "harness", "scenarios", "reports", "demos", "cli", "bench", "examples", "cmake")
SUBJECT = tuple(RANK + "/" + name for name in ("rank_context.h", "tensors.h")) + tuple(
    WORLD + "/" + name for name in ("checkpoints.h", "subject.h", "subjects.h", "optimizers.h", "options.h"))
# The messages between a launcher and a process: free of torch.
LAUNCHER = ("ddp/launcher_report.h", "ddp/rendezvous/launcher.h", "ddp/rendezvous/listening.h")
SCENARIOS = ("scenarios", "reference") + JUDGED + SUBJECT
LIBRARY = ("ddp", "train")


def ddp_floors():
    """A folder of ddp/ sees those below it, and the public headers, which lie at the root and see all of ddp/."""
    below, rules = ["base"], {"ddp": ("ddp",), "ddp/base": ("ddp/base",) + PUBLIC}
    for floor in (["backend"], ["rendezvous"], ["comm"], ["consistency"], ["sync_batch_norm", "hooks", "bucket_plan", "sampler"], ["reducer"], ["module"]):
        for folder in floor:
            rules["ddp/" + folder] = tuple("ddp/" + each for each in (*below, folder)) + PUBLIC
        below += floor
    return rules


MAY_INCLUDE = {
    **ddp_floors(),
    "train": LIBRARY,
    "reference": ("reference",),
    "harness": ("harness",),  # A folder that is not named below: it sees nothing of ddp/ either.
    BASE: (BASE,),
    HISTORY: (HISTORY, BASE),
    VERDICT: (VERDICT, HISTORY, BASE),
    CASES: JUDGED,
    PROCESS: (PROCESS, BASE),
    ARCHIVE: (ARCHIVE,) + JUDGED,
    CAMPAIGN: (CAMPAIGN, ARCHIVE, PROCESS) + JUDGED,
    "harness/canaries": ("harness/canaries", CAMPAIGN, ARCHIVE, PROCESS) + JUDGED + SUBJECT,
    RECORDED: (RECORDED, HISTORY, BASE),
    INVARIANTS: (INVARIANTS, RECORDED) + JUDGED,
    TIMELINE: (TIMELINE, INVARIANTS, RECORDED) + JUDGED,
    RANK: (RANK, PROCESS) + JUDGED,
    WORLD: (WORLD, PROCESS, RANK) + JUDGED,
    WORLD + "/devices/backends.cpp": (WORLD, PROCESS, RANK, ACCELERATOR) + JUDGED,
    WORLD + "/devices/cuda_backends.cpp": (WORLD, PROCESS, RANK, CUDA) + JUDGED,
    "recorder": ("recorder", RANK, HISTORY, BASE),
    ACCELERATOR: (ACCELERATOR, BASE),
    CUDA: (CUDA,),
    PYTORCH: (PYTORCH, PROCESS),
    "scenarios": SCENARIOS,
    "scenarios/subjects/pytorch.cpp": SCENARIOS + (PYTORCH,),
    "scenarios/subjects/pytorch_optimizers.cpp": SCENARIOS + (PYTORCH,),
    "scenarios/subjects/pytorch_optimizers.h": SCENARIOS + (PYTORCH,),
    "scenarios/subjects/pytorch_options.cpp": SCENARIOS + (PYTORCH,),
    "scenarios/subjects/pytorch_options.h": SCENARIOS + (PYTORCH,),
    **{"scenarios/subjects/lockstep" + end: SCENARIOS + LIBRARY for end in (".cpp", "_hooks.h", "_hooks.cpp", "_loop.cpp", "_norm_layers.cpp", "_optimizers.cpp")},
    "reports": ("reports",) + JUDGED,
    "demos": SCENARIOS + ("demos", "reports"),
    "cli": ALL_BUT_DDP,
    "cli/commands/shard.cpp": ALL_BUT_DDP + LIBRARY,
    "cli/run/launched.cpp": ALL_BUT_DDP + LAUNCHER,
    "bench": ALL_BUT_DDP + LIBRARY + ("recorder",),
    "examples": ALL_BUT_DDP + LIBRARY + ("recorder",),
    "python": ("python", "cli/whole_program.h", "reports/findings", PYTORCH, PROCESS, RANK, WORLD) + JUDGED,
    "cmake": ("cmake",),
    "tests": ALL_BUT_DDP + LIBRARY + ("recorder", "tests"),
}
