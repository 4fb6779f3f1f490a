"""PyTorch's DistributedDataParallel around a model that lives in C++: what the plugin calls."""

import torch
from lockstep_hooks import hook_of
from lockstep_loop import Sharded, all_reduce, random_split, refusal_of_sync_batch_norm  # noqa: F401
from lockstep_optimizers import AveragedSgd, Zero  # noqa: F401
from lockstep_worlds import CppError, Refused, adopt, let_go, warm_up  # noqa: F401
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


class CppModule(torch.nn.Module):
    """The very tensors of the C++ model: nn.Parameter(...) would be another TensorImpl with a .grad of
    its own. `call` is the model's forward, and `shape` says what becomes of its outputs."""

    def __init__(self, call):
        super().__init__()
        self._call = call
        self._shape = "one"

    def hold(self, kind, tensors):
        for name, tensor in tensors:
            *path, leaf = name.split(".")
            module = self
            for part in path:
                if part not in module._modules:
                    module.add_module(part, torch.nn.Module())
                module = module._modules[part]
            getattr(module, kind)[leaf] = tensor

    def forward(self, x):
        outputs = self._call(x, self._shape)
        if self._shape == "one":
            return outputs[0]
        if self._shape == "list":
            return outputs
        some = (outputs[1], outputs[2:]) if len(outputs) > 1 else None
        return {"first": outputs[0], "others": {"none": None, "some": some}}


def listed(output, shape):
    """All tensors of what forward returned."""
    if shape == "one":
        return [output]
    if shape == "list":
        return list(output)
    some = output["others"]["some"]
    return [output["first"]] + ([] if some is None else [some[0], *some[1]])


class Wrapped:
    """A DistributedDataParallel with what the harness asks of it."""

    def __init__(self, call, parameters, buffers, group, options):
        adopt(group)
        self.group = group
        self.module = CppModule(call)
        self.module.hold("_parameters", parameters)
        self.module.hold("_buffers", buffers)
        self.names = {}
        for name, tensor in parameters:
            self.names.setdefault(id(tensor), name)
        if options["ignored"]:
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self.module, options["ignored"])
        by_name = dict(parameters)
        keywords = dict(options["keywords"])
        if options["delayed"] or options["delayed_until"]:
            keywords["delay_all_reduce_named_params"] = [(name, by_name[name]) for name in options["delayed"]]
            keywords["param_to_hook_all_reduce"] = by_name[options["delayed_until"]]
        self.ddp = DistributedDataParallel(self.module, process_group=group, **keywords)
        if options["hook"]:
            self.ddp.register_comm_hook(*hook_of(options["hook"], group))

    def set_buffers(self, buffers):
        self.module.hold("_buffers", buffers)

    def forward(self, x, shape, training):
        adopt(self.group)
        if self.ddp.training != training:
            self.ddp.train(training)
        self.module._shape = shape
        return listed(self.ddp(x), shape)

    def no_sync(self):
        return self.ddp.no_sync()

    def join(self, kind, optimizer):
        """With `optimizer`, a Zero, ranks that are out of inputs shadow its steps too."""
        adopt(self.group)
        options = {"enable": kind != "disabled", "throw_on_early_termination": kind == "throws"}
        if optimizer is None:
            return self.ddp.join(divide_by_initial_world_size=kind != "live", **options)
        return Join([self.ddp, optimizer.zero], divide_by_initial_world_size=kind != "live", **options)

    def update_process_group(self, group):
        adopt(group)
        self.group = group
        self.ddp._update_process_group(group)

    def finish(self):
        self.ddp._check_reducer_finalized()

    def layout(self):
        """(elements, names) of each bucket; nothing where all gradients are delayed and there is no reducer."""
        if not hasattr(self.ddp, "reducer"):
            return []
        return [(bucket.buffer().numel(), [self.names[id(each)] for each in bucket.parameters()])
                for bucket in self.ddp.reducer._get_zeros_like_grad_buckets()]

    def has_rebuilt(self):
        return getattr(self.ddp, "_has_rebuilt_buckets", False)
