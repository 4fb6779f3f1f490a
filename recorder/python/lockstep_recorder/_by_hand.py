"""Records what programs do by hand: they update parameters that no optimizer and no wrapper has, or average them once behind all updates."""
import collections
import gc
import weakref

import torch

from ._collectives import REDUCING
from ._digests import bytes_of
from ._gradients import STEPS_MOST, is_plain
from ._models import Marks, is_divided, touch
from ._objects import other_generators

NODES_MOST = 20000  # Of a graph, in which leaves are sought.
GIVEN_MOST = 16  # Parameters of optimizers that are looked at before the first update.
HASHED_MOST = 1 << 14  # Elements.
SMALL = 200  # Nodes of one that is looked at in each step.


of_modules = {}  # By id of a leaf that a sum moves, a reference to it and whether a module has it.


def leaves_of_graphs(losses):
    """The leaves that these have gradients for, in the order in which the graphs reach them, but for those that move samples; and how many
    nodes it has seen."""
    nodes = collections.deque(loss.grad_fn for loss in losses if type(loss) is torch.Tensor and loss.grad_fn is not None)
    seen, leaves, moving = set(nodes), [], set()
    while nodes and len(seen) < NODES_MOST:
        node = nodes.popleft()
        if type(node).__name__ == "AccumulateGrad":
            leaves.append(node.variable)
        elif type(node).__name__ in ("AddBackward0", "SubBackward0"):
            moving.update(moves_samples(node))
        following = dict.fromkeys(after for after, _ in node.next_functions if after is not None and after not in seen)
        nodes.extend(following)
        seen.update(following)
    return [leaf for leaf in leaves if id(leaf) not in moving], len(seen)


def moves_samples(node):
    """ids of a leaf that a sum adds to data of its own shape, a perturbation say: a row for each sample, which is each rank's own."""
    after = [each for each, _ in node.next_functions]
    other = after[0] or after[1] if len(after) == 2 and None in after else None
    is_part = type(other).__name__ == "SliceBackward0"
    leaf = other.next_functions[0][0] if is_part else other
    shape = tuple(node._input_metadata[0].shape) if type(leaf).__name__ == "AccumulateGrad" and hasattr(node, "_input_metadata") else ()
    if len(shape) > 1 and leaf.variable.dim() == len(shape) and tuple(leaf.variable.shape)[is_part:] == shape[is_part:] and shape[0] > 1:
        if not is_of_a_module(leaf.variable):
            yield id(leaf.variable)


def is_of_a_module(leaf):
    """Whether a module has it: a weight with noise, say."""
    known = of_modules.get(id(leaf))
    if known is None or known[0]() is not leaf:
        holders = (each for each in gc.get_referrers(leaf) if type(each) is dict) if isinstance(leaf, torch.nn.Parameter) else ()
        is_held = any(all(value is None or isinstance(value, torch.nn.Parameter) for value in list(each.values())) for each in holders)
        known = of_modules[id(leaf)] = weakref.ref(leaf, lambda _, key=id(leaf): of_modules.pop(key, None)), is_held
    return known[1]


def marked(parameter):
    return Marks([("", parameter)]), touch([("", parameter)]), hash_of(parameter)


def is_other(parameter, seen):
    return not seen[0].are_of([("", parameter)]) or seen[1] != touch([("", parameter)]) or seen[2] != hash_of(parameter)


def hash_of(parameter):
    """Hashes a small one, of which a program may change a few rows by `p.data`."""
    return hash(bytes_of(parameter.detach())) if parameter.numel() <= HASHED_MOST and is_plain(parameter.detach()) else None


class Found:
    """A parameter that backwards reach and that no optimizer and no wrapper has."""

    def __init__(self, parameter, step):
        self.reference, self.step, self.lasts = weakref.ref(parameter), step, False
        self.began, self.has_moved = marked(parameter), False

    def reach(self, step):
        self.lasts = self.lasts or step > self.step  # What is made anew in each step, to learn a task say, does not.

    def look(self):
        parameter = self.reference()
        self.has_moved = self.has_moved or parameter is not None and is_other(parameter, self.began)
        return self.has_moved


class ByHand:
    """Records what programs update, or average, by hand."""

    def __init__(self, record):
        self.record = record
        self.given, self.givers = set(), []  # ids of what optimizers were given, and references to those.
        self.unmoved, self.is_unused = None, False  # Some of it before the first update, and whether it changed without one.
        self.parameters, self.count = {}, 0  # Those found, in the order in which backwards reached them, and how many there were.
        self.kept = []  # Those of them that live as the program reduces something: it may be the end of a function.
        self.before = {}  # Their marks and some elements, as they were looked at last.
        self.looked_at = None  # The step in which that was.
        self.nodes = 0  # Of the graph in which leaves were sought last.
        self.others = []  # Of the last backward: references to leaves that are no parameters, and some of their elements.
        self.is_unclear = self.is_within = False
        self.summed = 0  # Elements that reductions of the program have sent since the last update.
        self.reduced = []  # What the program reduces behind the last update: names of optimizers, their parameters, and some elements of those.

    def give(self, optimizer, group, *args, **kwargs):
        _, error = yield
        if error is None:
            self.given.update(id(p) for p in optimizer.param_groups[-1]["params"])
            others = [each for each in self.givers if each() is not None and each() is not optimizer]
            self.givers = [*others, weakref.ref(optimizer)]

    def taken(self):
        """ids of what optimizers update. A program may make one for its learning rate alone."""
        return () if self.is_unused and not self.record.training.updates else self.given

    def look_at_givers(self):
        """Whether what optimizers were given changes before any has made an update."""
        groups = [group for each in self.givers if each() is not None for group in each().param_groups]
        named = [("", p) for group in groups for p in group["params"] if type(p) is torch.nn.Parameter and not is_divided(p)][:GIVEN_MOST]
        if self.unmoved is None:
            self.unmoved = len(named), touch(named)
        elif len(named) == self.unmoved[0] and self.unmoved[1] != touch(named):
            self.is_unused = True

    def begin_backward(self, losses):
        training, wrappers = self.record.training, self.wrappers()
        if self.are_gathered(wrappers):
            return
        self.kept = []
        if self.given and not training.updates and not wrappers and not self.is_unused:
            self.look_at_givers()
        is_alone, step = not wrappers and not training.updates and not self.taken(), self.record.step
        # Later seldom where that takes long: a head may come into use.
        is_due = step < STEPS_MOST or step & (step - 1) == 0 or self.nodes <= SMALL
        is_new = self.count > len(self.parameters) or any(not each.lasts for each in self.parameters.values())
        if is_alone or is_due or is_new:
            self.look(losses)
        if is_alone or self.looked_at != self.record.step:  # What is trained within a step, for a task say, is each rank's own.
            self.look_at_parameters(is_alone)
        elif not self.is_within and any(name in self.before and is_other(p, self.before[name]) for name, p in self.named()):
            self.is_within = True
            self.record.fact("trained within a step")
        if training.updates and not wrappers and any(training.names.live()):
            self.record.digests("the program", "random", [("generator", torch.get_rng_state()), *other_generators()])

    def wrappers(self):
        return {model.wrapped_by for model in self.record.training.live_models()}

    def are_gathered(self, wrappers):
        """Whether a wrapper gathers parameters, and frees them behind a backward."""
        return self.record.training.sharded or wrappers - {"DistributedDataParallel", "watched"}

    def look(self, losses):
        """Finds leaves that no optimizer and no wrapper has. Parameters among them have no names, but an order."""
        owners, taken = self.record.training.owners(), self.taken()
        found, self.nodes = leaves_of_graphs(losses)
        leaves = [leaf for leaf in found
                  if id(leaf) not in taken and id(leaf) not in owners and not is_divided(leaf) and not leaf.is_meta]
        known, begun = {id(p): self.parameters[name] for name, p in self.named()}, []
        for leaf in leaves:
            if id(leaf) in known:
                known[id(leaf)].reach(self.record.step)
            elif isinstance(leaf, torch.nn.Parameter):
                begun.append(("parameter %d" % self.count, leaf))
                self.parameters[begun[-1][0]] = Found(leaf, self.record.step)
                self.count += 1
        if begun:
            self.record.at("forward")
            self.record.digests("no optimizer", "begun", begun)
        others = [leaf for leaf in leaves if not isinstance(leaf, torch.nn.Parameter)]
        before, self.others = self.others, [(weakref.ref(leaf), touch([("", leaf)])) for leaf in others]
        known = {id(leaf): seen for leaf, seen in ((reference(), seen) for reference, seen in before) if leaf is not None}
        if any(known.get(id(leaf), seen) != seen for leaf, (_, seen) in zip(others, self.others)):
            self.say_unclear()

    def named(self):
        """The parameters that are found, but for those that an optimizer or a wrapper was given since then."""
        owners = self.record.training.owners() if self.parameters else {}
        live = [(name, each.reference()) for name, each in self.parameters.items()]
        taken = self.taken()
        live = [(name, p) for name, p in live if p is not None and id(p) not in taken and id(p) not in owners]
        self.parameters = {name: self.parameters[name] for name, _ in live}
        return live

    def moved(self):
        """ids of those that have changed since they were found: in this step, or that are compared."""
        found = [(id(p), self.parameters[name]) for name, p in self.named()]
        return {key for key, each in found if each.look() and (each.lasts or each.step == self.record.step)}

    def look_at_parameters(self, is_alone, role="parameters"):
        """Records those that were there when it looked last, if any has changed."""
        found = self.named()
        before, self.before = self.before, {name: marked(p) for name, p in found}
        self.looked_at = self.record.step
        known = [(name, p) for name, p in found if name in before and (is_alone or self.parameters[name].lasts)]
        if any(is_other(p, before[name]) for name, p in known):
            self.record.at("forward")
            self.record.loaders.updates_since += 0 if self.record.training.updates else 1
            self.record.digests("no optimizer", role, known)

    def say_unclear(self):
        if not self.is_unclear:
            self.is_unclear = True
            self.record.fact("changed by hand", why="no parameters")

    def reduce(self, op, elements):
        if op not in REDUCING:
            return
        if self.parameters and not self.kept:
            self.kept = [p for _, p in self.named()]
        if self.summed == 0 and not any(True for _ in self.record.training.live_models()):
            self.reduced = [(name, strangers, touch(strangers)) for name, strangers in self.updated()]
        self.summed += elements

    def updated(self):
        """The name of each optimizer that has made an update, and what it updates."""
        training = self.record.training
        for optimizer in training.names.live():
            name, strangers = training.names.of(optimizer), training.strangers(optimizer, {})
            if strangers and name in training.left:
                yield name, strangers

    def end_update(self):
        self.summed, self.reduced = 0, []

    def record_reduced(self, but=None):
        """Records what the program has reduced since the last update, where it may have changed, but for what one optimizer is to update."""
        for name, strangers, before in self.reduced:
            if name != but and before != touch(strangers) and 2 * self.summed >= sum(p.numel() for _, p in strangers):
                self.record.at("forward")
                self.record.digests(name, "parameters", strangers)
        self.reduced = []

    def record_end(self):
        """Records parameters that the program has reduced behind the last update: no update and no backward finds them."""
        wrappers = self.wrappers()
        if not self.are_gathered(wrappers):
            is_alone = not wrappers and not self.record.training.updates
            self.look_at_parameters(is_alone, "parameters" if is_alone else "ended")
        if not wrappers:
            self.record_reduced()

    def leave_group(self, *args, **kwargs):
        self.record_end()
        yield
