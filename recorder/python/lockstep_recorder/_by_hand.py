"""Records programs that wrap no model: some update parameters themselves, or average them once behind all updates."""
import collections
import weakref

import torch

from ._collectives import REDUCING
from ._models import Marks, is_divided, touch
from ._objects import other_generators

NODES_MOST = 20000  # Of a graph, in which leaves are sought.


def leaves_of_graphs(losses):
    """The leaves that these have gradients for, in the order in which the graphs reach them."""
    nodes = collections.deque(loss.grad_fn for loss in losses if type(loss) is torch.Tensor and loss.grad_fn is not None)
    seen, leaves = set(nodes), []
    while nodes and len(seen) < NODES_MOST:
        node = nodes.popleft()
        if type(node).__name__ == "AccumulateGrad":
            leaves.append(node.variable)
        following = dict.fromkeys(after for after, _ in node.next_functions if after is not None and after not in seen)
        nodes.extend(following)
        seen.update(following)
    return leaves


class ByHand:
    """Records what programs without a wrapper do by hand."""

    def __init__(self, record):
        self.record = record
        self.given = set()  # ids of what optimizers were given.
        self.leaves = {}  # References by id, in the order in which backwards reached them first.
        self.before = None  # Names, marks and some elements, as the last backward began.
        self.says_others = False  # That leaves change which are parameters of no module.
        self.summed = 0  # Elements that reductions of the program have sent since the last update.

    def give(self, optimizer, group, *args, **kwargs):
        _, error = yield
        if error is None:
            self.given.update(id(p) for p in optimizer.param_groups[-1]["params"])

    def begin_backward(self, losses):
        training = self.record.training
        if training.sharded or any(True for _ in training.live_models()):  # Gathered parameters are freed behind a backward.
            return
        if not training.updates:
            self.look(losses)
        elif any(training.names.live()):
            self.record.digests("the program", "random", [("generator", torch.get_rng_state()), *other_generators()])

    def look(self, losses):
        """Finds parameters that no optimizer has, and that have changed since the last backward."""
        for leaf in leaves_of_graphs(losses):
            if id(leaf) not in self.given and not is_divided(leaf):
                self.leaves.setdefault(id(leaf), weakref.ref(leaf))
        places = [("parameter %d" % number, reference()) for number, reference in enumerate(self.leaves.values())]
        named = [(name, p) for name, p in places if p is not None]
        names, before = [name for name, _ in named], self.before
        if before is not None and before[0] == names and not (before[1].are_of(named) and before[2] == touch(named)):
            self.record_changed(named)
        self.before = names, Marks(named), touch(named)

    def record_changed(self, named):
        parameters = [(name, p) for name, p in named if isinstance(p, torch.nn.Parameter)]
        self.record.at("forward")
        if parameters:
            self.record.loaders.updates_since += 1
            self.record.digests("no optimizer", "parameters", parameters)
        elif not self.says_others:
            self.says_others = True
            self.record.fact("changed by hand", leaves=len(named))

    def count(self, op, elements):
        self.summed += elements if op in REDUCING else 0

    def record_end(self):
        """Records parameters that the program has reduced behind the last update: no update and no backward finds them."""
        training = self.record.training
        if self.summed == 0 or any(True for _ in training.live_models()):
            return
        for optimizer in training.names.live():
            name, strangers = training.names.of(optimizer), training.strangers(optimizer, {})
            if strangers and name in training.left and training.left[name] != training.held(strangers) and \
                    2 * self.summed >= sum(p.numel() for _, p in strangers):
                training.left[name] = training.held(strangers)
                self.record.at("forward")
                self.record.digests(name, "parameters", strangers)

    def leave_group(self, *args, **kwargs):
        self.record_end()
        yield
