"""Records what programs do by hand: they update parameters that no optimizer and no wrapper has, or average them once behind all updates."""
import collections
import weakref

import torch

from ._collectives import REDUCING
from ._digests import bytes_of
from ._gradients import STEPS_MOST, is_plain
from ._last_values import LastValues
from ._models import Marks, is_divided, touch
from ._moved_samples import MODEL, NODES, MovedSamples, summed_leaf
from ._objects import other_generators

NODES_MOST = 20000  # Of a graph, in which leaves are sought.
GIVEN_MOST = 16  # Parameters of optimizers that are looked at before the first update.
HASHED_MOST = 1 << 14  # Elements.
HELD_MOST = 1000  # Records.
SMALL = 200  # Nodes of one that is looked at in each step.


def leaves_of_graphs(losses, rows):
    """The leaves that these have gradients for, in the order in which the graphs reach them; ids of those that sums add to something of so
    many rows; and how many nodes it has seen."""
    nodes = collections.deque(loss.grad_fn for loss in losses if type(loss) is torch.Tensor and loss.grad_fn is not None)
    seen, leaves, summed = set(nodes), [], set()
    while nodes and len(seen) < NODES_MOST:
        node = nodes.popleft()
        if type(node).__name__ == "AccumulateGrad":
            leaves.append(node.variable)
        elif rows is not None and rows > 1 and type(node).__name__ in NODES:
            summed.add(id(summed_leaf(node, rows)))
        following = dict.fromkeys(after for after, _ in node.next_functions if after is not None and after not in seen)
        nodes.extend(following)
        seen.update(following)
    return leaves, summed, len(seen)


def marked(parameter):
    return Marks([("", parameter)]), touch([("", parameter)]), hash_of(parameter)


def is_other(parameter, seen):
    return not seen[0].are_of([("", parameter)]) or seen[1] != touch([("", parameter)]) or seen[2] != hash_of(parameter)


def hash_of(parameter):
    """Hashes a small one, of which a program may change a few rows by `p.data`."""
    return hash(bytes_of(parameter.detach())) if parameter.numel() <= HASHED_MOST and is_plain(parameter.detach()) else None


class Reached:
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
        self.dropped = 0  # How many of these are none that is looked for any more.
        self.moved_samples = MovedSamples(record)
        self.last = LastValues(self.take_last)  # Of those that the program frees behind its last reduction.
        self.first = {}  # By id of what optimizers were given and the first backward reached: a reference, and what it began with.
        self.held = []  # Records before the first update of an optimizer, if there is none.
        self.ended = None  # What the program freed behind its last reduction.
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

    def look_at_givers(self, losses):
        """Whether what optimizers were given changes before any has made an update."""
        groups = [group for each in self.givers if each() is not None for group in each().param_groups]
        named = [("", p) for group in groups for p in group["params"] if type(p) is torch.nn.Parameter and not is_divided(p)][:GIVEN_MOST]
        if self.unmoved is None:
            self.unmoved = len(named), touch(named)
            given = [leaf for leaf in leaves_of_graphs(losses, None)[0] if id(leaf) in self.given and type(leaf) is torch.nn.Parameter]
            self.first = self.beginnings([p for p in given if not is_divided(p) and not p.is_meta])
        elif len(named) == self.unmoved[0] and self.unmoved[1] != touch(named):
            self.is_unused = True

    def begin_backward(self, losses):
        training, wrappers = self.record.training, self.wrappers()
        if self.are_gathered(wrappers):
            return
        self.last.forget()
        self.ended = None
        if self.given and not training.updates and not wrappers and not self.is_unused:
            self.look_at_givers(losses)
        self.held = [] if training.updates else self.held
        is_alone, step = not wrappers and not training.updates and not self.taken(), self.record.step
        # Later seldom where that takes long: a head may come into use.
        is_due = step < STEPS_MOST or step & (step - 1) == 0 or self.nodes <= SMALL
        is_new = self.count - self.dropped > len(self.parameters) or any(not each.lasts for each in self.parameters.values())
        if is_alone or is_due or is_new or self.moved_samples.are_asked():
            self.look(losses)
        self.moved_samples.watch()
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
        found, summed, self.nodes = leaves_of_graphs(losses, self.record.loaders.rows)
        leaves = [leaf for leaf in found
                  if id(leaf) not in taken and id(leaf) not in owners and not is_divided(leaf) and not leaf.is_meta]
        known, further = {id(p): self.parameters[name] for name, p in self.named()}, []
        for leaf in leaves:
            if id(leaf) in known:
                known[id(leaf)].reach(self.record.step)
            elif isinstance(leaf, torch.nn.Parameter):
                further.append(leaf)
        if further:
            self.reach(further, summed)
        others = [leaf for leaf in leaves if not isinstance(leaf, torch.nn.Parameter)]
        before, self.others = self.others, [(weakref.ref(leaf), touch([("", leaf)])) for leaf in others]
        known = {id(leaf): seen for leaf, seen in ((reference(), seen) for reference, seen in before) if leaf is not None}
        if any(known.get(id(leaf), seen) != seen for leaf, (_, seen) in zip(others, self.others)):
            self.say_unclear()

    def beginnings(self, leaves):
        """Returns by id of each a reference, and what a list and its digests say of it."""
        (_, _, known), payload, _ = self.record.digested("no optimizer", "begun", [(str(number), leaf) for number, leaf in enumerate(leaves)])
        listed = [(leaves[int(name)], kind) for name, *kind in known]
        return {id(leaf): (weakref.ref(leaf), kind, payload[16 * number:16 * number + 16]) for number, (leaf, kind) in enumerate(listed)}

    def began(self, leaf):
        """Returns what a parameter began with, if that is known: it may have changed since then."""
        asked, first = self.moved_samples.of(leaf), self.first.get(id(leaf))
        return asked.begun if asked is not None else first if first is not None and first[0]() is leaf else None

    def reach(self, leaves, summed):
        """Names parameters that no backward has reached before, but for perturbations of samples, and for what may be one."""
        begun = {id(leaf): self.began(leaf) for leaf in leaves}
        begun.update(self.beginnings([leaf for leaf in leaves if begun[id(leaf)] is None and self.moved_samples.of(leaf) is None]))
        named = []
        for leaf in leaves:
            if id(leaf) in summed and self.moved_samples.of(leaf) is None:
                self.moved_samples.ask(leaf, begun[id(leaf)])
            if self.moved_samples.tell(leaf) == MODEL:
                named.append(("parameter %d" % self.count, leaf))
                self.parameters[named[-1][0]] = Reached(leaf, self.record.step)
                self.count += 1
        for is_given in (False, True):
            listed = [(name, *begun[id(leaf)][1:]) for name, leaf in named if (id(leaf) in self.given) == is_given and begun[id(leaf)]]
            if listed:
                key = "no optimizer", "begun", tuple((name, *kind) for name, kind, _ in listed)
                self.tell((key, b"".join(payload for *_, payload in listed), None), is_given)

    def tell(self, digested, is_held):
        """Writes it, or holds it until the end: an optimizer may still update what it was given, and the program trains tasks before."""
        if is_held and not self.record.training.updates:
            self.held = [*self.held[:HELD_MOST - 1], digested]
        else:
            self.record.at("forward")
            self.record.write(digested)

    def tell_held(self):
        """Writes what was held, if no optimizer has made an update."""
        held, self.held = self.held, []
        for each in held if not self.record.training.updates else ():
            self.record.at("forward")
            self.record.write(each)

    def named(self):
        """The parameters that are found, but for those that an optimizer or a wrapper was given since then."""
        owners = self.record.training.owners() if self.parameters else {}
        live = [(name, each.reference()) for name, each in self.parameters.items()]
        taken = self.taken()
        self.dropped += sum(p is not None and id(p) in taken for _, p in live)
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
            self.record.loaders.updates_since += 0 if self.record.training.updates else 1
            self.tell(self.record.digested("no optimizer", role, known), self.is_unused)

    def take_last(self, named):
        """Takes what the program frees, as it does: it may have changed since the last backward."""
        is_alone = not self.wrappers() and not self.record.training.updates
        known = [(name, p) for name, p in named if name in self.before and name in self.parameters and (is_alone or self.parameters[name].lasts)]
        if any(self.before[name][1:] != (touch([("", p)]), hash_of(p)) for name, p in known):
            self.ended = self.record.digested("no optimizer", "parameters" if is_alone else "ended", known)

    def say_unclear(self):
        if not self.is_unclear:
            self.is_unclear = True
            self.record.fact("changed by hand", why="no parameters")

    def reduce(self, op, elements):
        if op not in REDUCING:
            return
        if self.parameters:
            self.last.keep(self.named())
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
            if self.ended:
                self.tell(self.ended, self.is_unused)
            self.ended = None
        self.tell_held()
        if not wrappers:
            self.record_reduced()

    def leave_group(self, group=None, *args, **kwargs):
        self.record_end()
        if group is None or group is torch.distributed.group.WORLD:
            self.record.training.buffers.record_end()
        yield
