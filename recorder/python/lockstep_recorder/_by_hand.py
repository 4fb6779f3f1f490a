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
        self.parameters = None  # References, in the order in which the first backward reached them.
        self.before = None  # Their marks and some elements, as the last backward began.
        self.others = []  # Of the last backward: references to leaves that are no parameters, and some of their elements.
        self.is_unclear = False
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
        """Finds parameters that no optimizer has, and that have changed since the last backward.

        They have no names. Where a later backward reaches others, ranks may have reached them in other orders: they are not compared."""
        leaves = [leaf for leaf in leaves_of_graphs(losses) if id(leaf) not in self.given and not is_divided(leaf)]
        parameters = [leaf for leaf in leaves if isinstance(leaf, torch.nn.Parameter)]
        if self.parameters is None and parameters:
            self.parameters = [weakref.ref(p) for p in parameters]
        elif {id(p) for p in parameters} - {id(p) for _, p in self.named()}:
            self.say_unclear("reaches others")
        self.look_at_parameters()
        others = [leaf for leaf in leaves if not isinstance(leaf, torch.nn.Parameter)]
        before, self.others = self.others, [(weakref.ref(leaf), touch([("", leaf)])) for leaf in others]
        known = {id(leaf): seen for leaf, seen in ((reference(), seen) for reference, seen in before) if leaf is not None}
        if any(known.get(id(leaf), seen) != seen for leaf, (_, seen) in zip(others, self.others)):
            self.say_unclear("no parameters")

    def named(self):
        places = [("parameter %d" % number, reference()) for number, reference in enumerate(self.parameters or ())]
        return [(name, p) for name, p in places if p is not None]

    def look_at_parameters(self):
        named, before = self.named(), self.before
        if not named or self.is_unclear:
            return
        self.before = Marks(named), touch(named)
        if before is not None and not (before[0].are_of(named) and before[1] == self.before[1]):
            self.record.at("forward")
            self.record.loaders.updates_since += 1
            self.record.digests("no optimizer", "parameters", named)

    def say_unclear(self, why):
        if not self.is_unclear:
            self.is_unclear = True
            self.record.fact("changed by hand", why=why)

    def count(self, op, elements):
        self.summed += elements if op in REDUCING else 0

    def record_end(self):
        """Records parameters that the program has reduced behind the last update: no update and no backward finds them."""
        training = self.record.training
        if any(True for _ in training.live_models()):
            return
        if not training.updates and not training.sharded:
            self.look_at_parameters()
        if self.summed == 0:
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
