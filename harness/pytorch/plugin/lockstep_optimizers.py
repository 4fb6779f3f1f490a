"""Optimizers of torch.distributed: averaged parameters, and state that is divided over the ranks."""

import io

import torch
from lockstep_worlds import Refused, adopt
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer


def bytes_of(state):
    saved = io.BytesIO()
    torch.save(state, saved)
    return saved.getvalue()


def state_in(saved):
    return torch.load(io.BytesIO(saved), weights_only=False)


class AveragedSgd:
    """Plain SGD with learning rate 1, whose parameters the ranks average."""

    def __init__(self, parameters, group, options):
        if options["is_hierarchical"]:
            raise Refused("PyTorch's HierarchicalModelAverager makes process groups of its own")
        adopt(group)
        self.group = group
        self.averager = PeriodicModelAverager(
            period=options["period"], warmup_steps=options["warmup_steps"], process_group=group)
        self.optimizer = torch.optim.SGD(parameters, lr=1.0)
        self.averages_itself = options["through_optimizer"]
        if self.averages_itself:
            self.optimizer = PostLocalSGDOptimizer(self.optimizer, self.averager)

    def step(self):
        adopt(self.group)
        self.optimizer.step()
        if not self.averages_itself:
            self.averager.average_parameters(self.optimizer.param_groups)

    def save(self):
        return bytes_of((self.optimizer.state_dict(), self.averager.step))

    def load(self, saved):
        state, step = state_in(saved)
        self.optimizer.load_state_dict(state)
        if not self.averages_itself:
            self.averager.step = step


class Zero:
    """A ZeroRedundancyOptimizer."""

    def __init__(self, optimizer, groups, group):
        adopt(group)
        self.group = group
        defaults = {name: value for name, value in groups[0].items() if name != "params"}
        self.zero = ZeroRedundancyOptimizer(
            groups, optimizer_class=getattr(torch.optim, optimizer), process_group=group, **defaults)

    def step(self):
        adopt(self.group)
        self.zero.step()

    def add_group(self, group):
        adopt(self.group)
        self.zero.add_param_group(group)

    def set_learning_rate(self, group, rate):
        self.zero.param_groups[group]["lr"] = rate

    def save(self, to):
        adopt(self.group)
        self.zero.consolidate_state_dict(to=to)
        return bytes_of(self.zero.state_dict()) if self.group.rank() == to else b""

    def load(self, saved):
        adopt(self.group)
        self.zero.load_state_dict(state_in(saved))

    def elements_of_state(self):
        return sum(value.numel() for state in self.zero.optim.state.values() for value in state.values()
                   if torch.is_tensor(value) and value.dim() > 0)
