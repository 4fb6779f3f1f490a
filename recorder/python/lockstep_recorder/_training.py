"""The optimizers' updates, and joins of uneven inputs."""
import collections
import itertools
import multiprocessing.process
import sys
import time
import weakref

import torch

from ._gradients import STEPS_MOST
from ._losses import averages_of
from ._models import Copy, Marks, clean, gradients_of, is_divided, is_updated, touch
from ._objects import Names, field
from ._own_buffers import OwnBuffers
from ._passes import Passes
from ._steps import Steps


def parameters_of(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


def part_of(optimizer, owners):
    """[model, name] of the parameters that this rank updates for all, as ZeroRedundancyOptimizer does; None where it updates all."""
    within = field(optimizer, "optim")
    if not isinstance(within, torch.optim.Optimizer):
        return None
    own = parameters_of(within)
    is_whole = len(own) == len(parameters_of(optimizer))
    return None if is_whole else [[owners[id(p)][0].name, owners[id(p)][1]] for p in own if id(p) in owners]


class Training(Passes):
    """The optimizers' updates of the models, and joins of uneven inputs."""

    def __init__(self, record):
        super().__init__(record)
        self.stepping, self.update_began, self.joins = None, 0, 0
        self.names, self.updates = Names("optimizer"), collections.Counter()  # Updates of each.
        self.averages = Names("average")  # Of weights, in PyTorch's AveragedModel.
        self.estimated = Names("averaged model")  # Whose statistics update_bn() took.
        self.left = {}  # What each optimizer's last update left in strangers.
        self.gradients_taken = {}  # Marks of the gradients of strangers that it took.
        self.optimized = set()  # ids of all that an optimizer has updated.
        self.buffers, self.steps = OwnBuffers(record), Steps(self)

    def is_stepping(self):
        """Whether the step of an optimizer runs around this one. One that threw does not."""
        if self.stepping is None:
            return False
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name == "wrapper" and frame.f_locals.get("self") is self.stepping:
                return True
            frame = frame.f_back
        return False

    def begin_update(self, optimizer, args, kwargs):
        if self.stepping is not optimizer and self.is_stepping():
            return
        if multiprocessing.process.parent_process() is None:  # Another one is a helper until it makes a process group.
            self.record.open(0, 1)
        self.stepping, self.update_began = optimizer, time.monotonic_ns()
        self.forget_lists()
        self.adopt()
        name = self.names.of(optimizer)
        self.optimized.update(map(id, parameters_of(optimizer)))
        for model in self.live_models():
            model.updating = {id(p) for p in parameters_of(optimizer) if is_updated(p)}
        strangers = self.strangers(optimizer, self.owners())
        if strangers and not self.updates[name]:
            self.record.at("construction")
            self.record.digests(name, "parameters", strangers)
        elif strangers and self.left.get(name) != touch(strangers):
            self.record.at("forward")
            self.record.digests(name, "parameters", strangers)
        self.record.by_hand.record_reduced(but=name)
        for model in self.live_models():
            parameters = model.parameters() if model.wrapped_by == "watched" and model.recorded is not None else []
            if parameters and self.record.is_due(parameters) and not (model.recorded.are_of(parameters) and model.held == touch(parameters)):
                self.record.at("forward")
                self.record_parameters(model)
        if not self.updates[name]:
            self.record_restored(optimizer, name)
        self.steps.begin(optimizer, args, kwargs)

    def record_restored(self, optimizer, name):
        """The state that an optimizer has before its first update here, from a checkpoint."""
        state = self.state(optimizer, parameters_of(optimizer), self.owners())
        if state:
            self.record.at("forward")
            self.record.digests(name, "restored", state)

    def strangers(self, optimizer, owners):
        places, ignored = parameters_of(optimizer), self.ignored()
        return [(ignored.get(id(p), "parameter %d" % number), p) for number, p in enumerate(places)
                if is_updated(p) and id(p) not in owners and not is_divided(p)]

    def ignored(self):
        """{id: name} of the parameters that DistributedDataParallel ignores."""
        return {id(p): "%s %s" % (model.name, name) for model in self.live_models() for name, p in model.ignored()}

    def take(self, optimizer, strangers):
        """Gradients as the update takes them, where they are not those of the last backward."""
        self.record.at("update")
        self.record.gradients.take(parameters_of(optimizer))
        if strangers:
            gradients = gradients_of(strangers)
            self.record.gradients.take_hooked(self.names.of(optimizer), strangers)
            self.record.gradients.average(self.names.of(optimizer), gradients)
            self.gradients_taken[self.names.of(optimizer)] = Marks(gradients)
            self.record.digests(self.names.of(optimizer), "gradients", gradients)
        own = set(map(id, parameters_of(optimizer)))
        for model in self.live_models():
            gradients = model.gradients()
            is_own = not own.isdisjoint(model.owned())
            if is_own:
                self.record.gradients.average(model.name, gradients)
            is_seen = model.seen is not None and model.seen[0].are_of(model.marked()) and \
                (model.seen[1] is None or model.seen[1] == touch(gradients))
            if is_own and any(t is not None for _, t in gradients) and (not is_seen or model.wrapped_by == "watched"):
                self.record_parts(model, "taken", gradients)

    def record_terms(self, losses):
        try:
            for function, terms, weight, classes, begins, summed in itertools.chain.from_iterable(map(averages_of, losses)):
                self.record.fact("terms", function=function, terms=terms, weight=weight, **({"classes": classes} if classes else {}),
                                 **({"labels": "first"} if begins else {}), **({"summed": summed} if summed else {}))
        except Exception as error:
            self.record.omit("over how many terms a loss averages", error)

    def are_as_after_backward(self):
        """Whether the gradients of all models that had a backward are still those that it left."""
        seen = [model for model in self.live_models() if model.has_backward and model.seen is not None]
        return bool(seen) and all(model.seen[0].are_of(model.marked()) and model.seen[1] in (None, touch(model.gradients())) for model in seen)

    def leave_bucket(self, bucket):
        """Gradients that a communication hook of the program is to average."""
        owners = self.owners()
        named = [(owners[id(p)], gradient) for p, gradient in zip(bucket.parameters(), bucket.gradients()) if id(p) in owners]
        for model in {owner[0] for owner, _ in named}:
            self.record.gradients.leave(model.name, [(owner[1], gradient) for owner, gradient in named if owner[0] is model])

    def leave_strangers(self):
        """Gradients of a backward of what no wrapper has and an optimizer has updated before, and those that tensor hooks sent."""
        optimizers = self.names.live() if self.record.step < STEPS_MOST else ()
        owners = self.owners() if optimizers else {}
        for model in self.live_models() if self.record.gradients.hooked else ():
            self.record.gradients.leave_hooked(model.name, model.parameters())
        for optimizer in optimizers:
            strangers = self.strangers(optimizer, owners)
            if strangers and any(id(p) in self.record.gradients.hooked for _, p in strangers):
                self.record.gradients.leave_hooked(self.names.of(optimizer), strangers)
            elif strangers and not self.has_taken(optimizer, gradients_of(strangers)):
                self.record.gradients.leave_behind(self.names.of(optimizer), gradients_of(strangers))

    def has_taken(self, optimizer, gradients):
        """Whether these are the gradients of its last update: a backward of something else came since then."""
        taken = self.gradients_taken.get(self.names.of(optimizer))
        return taken is not None and taken.are_of(gradients)

    def end_update(self, optimizer, args, kwargs):
        if optimizer is not self.stepping:  # The one that another has within it.
            return
        self.record.gradients.end_update(optimizer)
        self.record.loaders.updates_since += 1
        self.record.by_hand.end_update()
        self.forget_lists()
        self.stepping, name, owners = None, self.names.of(optimizer), self.owners()
        places = parameters_of(optimizer)
        own, strangers = [owners[id(p)] for p in places if id(p) in owners], self.strangers(optimizer, owners)
        self.steps.end(optimizer, args, kwargs)
        self.record.at("update")
        self.record.span("update", self.update_began)
        groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
        self.record.fact(name, kind=type(optimizer).__name__, groups=groups, foreign=len(strangers),
                         sizes=[len(group["params"]) for group in optimizer.param_groups],
                         owned=[[model.name, name] for model, name, is_frozen in own if not is_frozen],
                         frozen=sum(is_frozen for _, _, is_frozen in own), divided=sum(map(is_divided, places)),
                         part=part_of(optimizer, owners), between=self.record.divided_layers.among(strangers) or None)
        state = self.state(optimizer, places, owners)
        if self.record.is_due(state):
            self.record.digests(name, "state", state)
        self.updates[name] += 1
        if strangers:
            self.record.digests(name, "parameters", strangers)
            self.left[name] = touch(strangers)
        owning = {model for model, _, _ in own}
        for model in self.live_models():
            self.record_parameters(model, model in owning or model.wrapped_by == "watched", is_update=True)
            if model in owning:
                model.taken, model.forwards_of_step, model.has_backward, model.is_evaluated = Marks(model.marked()), 0, False, False
            model.updating = ()
        self.record_copies()
        self.record.step += 1

    def state(self, optimizer, places, owners):
        ignored = self.ignored()

        def name_of(number, p):
            owner = owners.get(id(p))
            return "%s %s" % (owner[0].name, owner[1]) if owner else ignored.get(id(p), "parameter %d" % number)
        of_model = {key: number for number, key in enumerate(owners)}  # A program may list them in the order of a set.
        numbers = sorted(range(len(places)), key=lambda number: of_model.get(id(places[number]), len(of_model)))
        states = [(number, optimizer.state.get(places[number])) for number in numbers]  # None where another rank has it
        return [("%s %s" % (name_of(number, places[number]), key), value) for number, state in states
                for key, value in (state.items() if isinstance(state, dict) else ()) if isinstance(value, torch.Tensor)]

    def register_buffer(self, layer, /, *args, **kwargs):
        return self.buffers.register(layer)

    def restore(self, module, /, *args, **kwargs):
        """A module that is a copy, or that values are loaded into: a teacher, say, or an average of weights."""
        _, error = yield
        if error is None:
            self.restored[id(module)] = weakref.ref(module), True

    def freeze(self, module, *args, **kwargs):
        """A module goes into evaluation, or requires no gradients: it may be a teacher that each rank made."""
        self.restored.setdefault(id(module), (weakref.ref(module), False))
        yield

    def estimate(self, loader, model, *args, **kwargs):
        """The statistics of an average of weights are taken from data."""
        _, error = yield
        owned = {id(each) for wrapped in self.live_models() for each in (wrapped.wrapper(), wrapped.module())}
        if error is None and id(model) not in owned:
            self.record.at("forward")
            buffers = [(clean(name), tensor) for name, tensor in torch.nn.Module.named_buffers(model)]
            self.record.digests(self.estimated.of(model), "statistics", buffers)

    def record_copies(self):
        """The copies that nothing trains, where they may have changed. Which ones those are shows as optimizers and wrappers have theirs."""
        if not self.restored and not self.copies:
            return
        moved, trained = self.record.by_hand.moved(), {id(each) for model in self.live_models() for each in torch.nn.Module.modules(model.module())}
        trained.update(id(field(average, "_modules")["module"]) for average in self.averages.live())

        def named_in(module):
            """Its parameters, but for those that the program trains itself; none where it is trained, or an average that is recorded."""
            named = [] if module is None or id(module) in trained else list(torch.nn.Module.named_parameters(module))
            is_trained = any(id(p) in self.optimized or is_divided(p) for _, p in named)
            return [(clean(name), p) for name, p in named if not is_trained and id(p) not in moved]
        known = {id(copy.module()) for copy in self.copies}
        restored = [(module, is_loaded) for module, is_loaded in ((reference(), is_loaded) for reference, is_loaded in self.restored.values())
                    if named_in(module) and (is_loaded or id(module) not in known)]
        self.restored.clear()
        inner = {id(each) for module, _ in restored for each in torch.nn.Module.modules(module) if each is not module}
        roots = [(module, is_loaded) for module, is_loaded in restored if id(module) not in inner]
        for number, (module, is_loaded) in enumerate(roots):
            before = [copy for copy in self.copies if copy.module() is module]
            self.copies = [copy for copy in self.copies if copy not in before[1:]]  # One that is loaded again and again stays two.
            self.copies.append(Copy(module, "copy %d of %d, made in step %d" % (number + 1, len(roots), self.record.step), is_loaded))
            self.record.fact(self.copies[-1].name, kind=type(module).__name__, loaded=is_loaded)
        for copy in tuple(self.copies):
            named = named_in(copy.module())
            if not named:
                self.copies.remove(copy)
                if copy.module() is not None:
                    self.record.fact(copy.name, trained=True)
            elif self.record.is_due(named) and copy.has_changed(named):
                self.record.digests(copy.name, "average", named)

    def average(self, average, /, *args, **kwargs):
        _, error = yield
        parameters = torch.nn.Module.named_parameters(field(average, "_modules")["module"])
        named = [(clean(name), p) for name, p in parameters if not is_divided(p)]
        if error is None and self.record.is_due(named):
            self.record.at("update")
            self.record.digests(self.averages.of(average), "average", named)

    def scale(self, scaler, /, *args, **kwargs):
        name = self.names.of(args[0] if args else kwargs["optimizer"])
        before = self.updates[name]
        _, error = yield
        if error is None and self.updates[name] == before:
            self.record.at("update")
            self.record.fact("skipped", optimizer=name, by=type(scaler).__name__)

    def join(self, join):
        if join._enable:
            self.record.at("join")
            self.record.fact("join %d" % self.joins)
        yield

    def exhausted(self, join, error, *about):
        """This rank has no more inputs: from here on it shadows its peers, and holds the last one's parameters at the end."""
        if not join._enable or error:
            return
        self.record.at("join")
        _, failed = yield
        if failed is None:
            self.record.at("joined")
            self.record.fact("join %d ended" % self.joins)
            self.joins += 1
            for model in self.live_models():
                self.record_parameters(model, True)
