"""PyTorch's DistributedDataParallel around a model that lives in C++: what the plugin calls."""

from lockstep_files import FileLayer, FileSharded, FileWrapped, lacks, open_file  # noqa: F401
from lockstep_hooks import hook_of
from lockstep_loop import Sharded, all_reduce, random_split, refusal_of_sync_batch_norm  # noqa: F401
from lockstep_module import listed, module_of
from lockstep_optimizers import AveragedSgd, Zero  # noqa: F401
from lockstep_worlds import CppError, Refused, adopt, leave, let_go, refuse_unknown, warm_up  # noqa: F401
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


class Wrapped:
    """A DistributedDataParallel with what the harness asks of it."""

    def __init__(self, call, parameters, buffers, group, options):
        refuse_unknown(options["keywords"])
        self.group = group
        self.has_sparse_layers = bool(options["sparse"])
        self.module = module_of(call, parameters, buffers, options["sparse"])
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
            if isinstance(keywords.get("bucket_cap_mb"), float):
                raise Refused("PyTorch takes whole MiB alone as bucket_cap_mb where reductions are delayed")
        adopt(group)
        self.ddp = DistributedDataParallel(self.module, process_group=group, **keywords)
        self.power_sgd = None
        if options["hook"]:
            state, hook, self.power_sgd = hook_of(options["hook"], group, {tensor.dtype for _, tensor in parameters})
            self.ddp.register_comm_hook(state, hook)

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

    def left_out(self, parameter):
        if self.power_sgd is None:
            raise Refused("this communication hook keeps nothing")
        return self.power_sgd.left_out(parameter)

    def finish(self):
        self.ddp._check_reducer_finalized()

    def layout(self):
        """(elements, names) of each bucket; nothing where all gradients are delayed and there is no reducer, or where
        the reducer cannot say: the bucket of a sparse gradient has no size before the gradient came."""
        if not hasattr(self.ddp, "reducer") or self.has_sparse_layers:
            return []
        return [(bucket.buffer().numel(), [self.names[id(each)] for each in bucket.parameters()])
                for bucket in self.ddp.reducer._get_zeros_like_grad_buckets()]

    def has_rebuilt(self):
        return getattr(self.ddp, "_has_rebuilt_buckets", False)
