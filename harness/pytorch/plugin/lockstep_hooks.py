"""Communication hooks: PyTorch's own, and two of a program's."""

import torch
import torch.distributed as dist
from lockstep_worlds import Refused
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks, powerSGD_hook


def gathered_hook(group, bucket):
    """Sums in the order of the ranks, in memory of its own."""
    scaled = bucket.buffer() / group.size()
    parts = [torch.empty_like(scaled) for _ in range(group.size())]
    work = dist.all_gather(parts, scaled, group=group, async_op=True)

    def add(_):
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    return work.get_future().then(add)


def own_work_hook(group, bucket):
    total = bucket.buffer() / group.size()
    return dist.all_reduce(total, group=group, async_op=True).get_future().then(lambda _: total)


class PowerSgd:
    """PyTorch's powerSGD_hook, which keeps what it left out by bucket; and where in it each parameter is."""

    def __init__(self, options, group, dtypes):
        if options["around"] != "none" or dtypes & {torch.float16, torch.bfloat16}:
            raise Refused("PyTorch's powerSGD_hook computes in half precision where gradients are, and keeps what that rounds to")
        if options["compression_log2"] < 0:
            raise Refused("PyTorch's powerSGD_hook approximates vectors too at a min_compression_rate below 1, and divides by the "
                          "length of one that is zero")
        try:
            self.state = powerSGD_hook.PowerSGDState(
                group, matrix_approximation_rank=options["matrix_rank"], start_powerSGD_iter=options["start"],
                min_compression_rate=2.0 ** options["compression_log2"],
                use_error_feedback=options["use_error_feedback"], warm_start=options["warm_start"],
                random_seed=options["random_seed"])
        except ValueError as error:  # before it has communicated, on every rank
            raise Refused(f"PyTorch: {error}") from error
        self.places = {}  # (bucket, first element) by the parameter's id

    def hook(self):
        def run(state, bucket):
            first = 0
            for parameter in bucket.parameters():
                self.places[id(parameter)] = (bucket.index(), first)
                first += parameter.numel()
            return powerSGD_hook.powerSGD_hook(state, bucket)

        return run

    def left_out(self, parameter):
        """None where nothing is kept."""
        index, first = self.places.get(id(parameter), (-1, 0))
        if index not in self.state.error_dict:
            return None
        return self.state.error_dict[index][first:first + parameter.numel()].view_as(parameter)


def hook_of(options, group, dtypes):
    """The state and the hook that a case wants for gradients of these dtypes, and the PowerSgd that it is, or None."""
    kind = options["kind"]
    hooks = {
        "all_reduce": (group, default_hooks.allreduce_hook),
        "fp16_compress": (group, default_hooks.fp16_compress_hook),
        "bf16_compress": (group, default_hooks.bf16_compress_hook),
        "noop": (group, debugging_hooks.noop_hook),
        "gathered": (group, gathered_hook),
        "own_work": (group, own_work_hook),
    }
    power_sgd = None
    if kind == "power_sgd":
        power_sgd = PowerSgd(options, group, dtypes)
        chosen = (power_sgd.state, power_sgd.hook())
    elif kind in hooks:
        chosen = hooks[kind]
    else:
        raise Refused(f"PyTorch's hook {kind} computes on a GPU alone")
    state, hook = chosen
    if options["around"] == "fp16_compress":
        hook = default_hooks.fp16_compress_wrapper(hook)
    elif options["around"] == "bf16_compress":
        hook = default_hooks.bf16_compress_wrapper(hook)
    return state, hook, power_sgd
