"""How gradients become those that an update takes: samples of them before and after they are averaged, clips, scales, and reductions that
nobody waited for."""
import functools
import weakref

import torch

from . import _state
from ._hooks import is_compiling, quietly
from ._models import gradients_of
from ._objects import field, number_in

STEPS_MOST, TENSORS_MOST, VALUES_MOST = 8, 16, 4  # Steps in which samples are recorded, tensors of a sample, and values of each.
PLAIN = torch.Tensor, torch.nn.Parameter


def is_plain(tensor):
    return type(tensor) is torch.Tensor and tensor.layout == torch.strided and tensor.device.type != "meta"


def number_of(value):
    """None where only code of the program's own, or a collective, could tell."""
    value = number_in(value)
    return float(value) if type(value) in (int, float) or is_plain(value) and value.numel() == 1 else None


def sample_of_each(named):
    """{name: some values} of the first tensors."""
    found = {}
    for name, tensor in named:
        if is_plain(tensor) and tensor.is_contiguous() and tensor.numel() and not tensor.is_complex():
            flat = tensor.detach().reshape(-1)
            found[name] = flat[::max(1, flat.numel() // VALUES_MOST)][:VALUES_MOST].double().tolist()
        if len(found) == TENSORS_MOST:
            break
    return found


def observed(hook, tensor):
    """A tensor's hook of the program, before which a sample of the gradient is taken: it may average it."""
    reference = weakref.ref(tensor)

    @functools.wraps(hook)
    def own(given):
        if is_compiling() or not _state.recorder.is_on():
            return hook(given)
        key = quietly("a hooked gradient", _state.recorder.gradients.before_hook, reference, given)
        result = hook(given)
        quietly("a hooked gradient", _state.recorder.gradients.after_hook, key)
        return result
    return own


def observing(original):
    """Registers hooks of leaf tensors so that what they get is known."""
    @functools.wraps(original)
    def function(tensor, hook):
        is_own = not is_compiling() and _state.recorder.is_on() and not (getattr(hook, "__module__", None) or "").startswith("torch.")
        return original(tensor, observed(hook, tensor) if is_own and type(tensor) in PLAIN and tensor.is_leaf and callable(hook) else hook)
    return function


def queued(callback):
    """A callback of the program, before which gradients are sampled: it runs when a backward has computed them, and may average them."""
    @functools.wraps(callback)
    def own():
        if is_compiling() or not _state.recorder.is_on():
            return callback()
        begun = quietly("a callback of a backward", _state.recorder.gradients.before_callback)
        result = callback()
        quietly("a callback of a backward", _state.recorder.gradients.after_callback, begun)
        return result
    return own


class Engine(type(torch.autograd.Variable._execution_engine)):
    """In the place of PyTorch's engine of backwards: what the program queues in it is known."""

    def queue_callback(self, callback):
        is_own = not is_compiling() and _state.recorder.is_on() and not (getattr(callback, "__module__", None) or "").startswith("torch.")
        return super().queue_callback(queued(callback) if is_own and callable(callback) else callback)


class Gradients:
    """Samples of gradients as each rank computed them and as updates take them."""

    def __init__(self, record):
        # By model or optimizer: collectives that the program had issued as its gradients were its own, elements that it had sent, and the
        # names of those gradients.
        self.record, self.own = record, {}
        # By id of a parameter: a sample of its gradient before a hook that issued a collective, in this backward; empty where an
        # update within the hook took it. And what hooks that run now began with.
        self.hooked, self.hooking = {}, {}
        self.called = {}  # Samples of gradients before a callback of the program that issued a collective, in this backward, by what has them.
        self.begun = 0, 0, 0  # As the last backward began: what the program had sent, and the elements of it in reductions.
        self.scaled, self.scale, self.is_scaled = [], 1.0, False  # Losses that a GradScaler multiplied, and whether the last backward's was.
        self.unscaled, self.unwaited = set(), []  # ids of parameters; reductions as [their tensors, whether the program waited for them].

    def before_hook(self, reference, given):
        """Samples the gradient that a tensor's hook gets. Returns the tensor's id, for `after_hook`."""
        tensor = reference()
        if self.record.step < STEPS_MOST and len(self.hooked) < TENSORS_MOST and id(tensor) not in self.hooked:
            gradient = tensor.grad if given is tensor else given  # A hook behind the accumulation gets the parameter.
            self.hooking[id(tensor)] = self.record.collectives.count, sample_of_each([("", gradient)]).get("")
        return id(tensor)

    def after_hook(self, key):
        count, sample = self.hooking.pop(key, (0, None))
        if sample is not None and self.record.collectives.count > count:
            self.hooked[key] = sample

    def take_hooked(self, of, places):
        """An update within a hook takes what the hook has averaged."""
        taken = {id(p): self.hooking[id(p)] for _, p in places if id(p) in self.hooking}
        for key in taken:
            self.after_hook(key)
        if taken:
            self.leave_hooked(of, [each for each in places if id(each[1]) in taken])
            self.hooked.update(dict.fromkeys(self.hooked.keys() & taken.keys(), ()))

    def leave_hooked(self, of, places):
        """Gradients of a backward that tensor hooks of the program got before they sent them. `places`: (name, parameter)."""
        tensors = {name: self.hooked[id(p)] for name, p in places if self.hooked.get(id(p))}
        if tensors:
            self.tell_hooked(of, tensors)

    def tell_hooked(self, of, tensors):
        self.own[of] = *self.begun[:2], set(tensors)
        self.record.fact("own gradients", of=of, tensors=tensors, hooked=True)

    def before_callback(self):
        """Returns how many collectives the program has issued, and samples of the gradients that it may average now."""
        training = self.record.training
        if self.record.step >= STEPS_MOST or self.called:
            return None
        owners = training.owners()
        named = {training.names.of(each): training.strangers(each, owners) for each in training.names.live()}
        named.update((model.name, model.parameters()) for model in training.live_models() if model.wrapped_by == "watched")
        return self.record.collectives.count, {of: sample_of_each(gradients_of(each)) for of, each in named.items()}

    def after_callback(self, begun):
        if begun is not None and self.record.collectives.count > begun[0]:
            self.called = begun[1]

    def leave_behind(self, of, named):
        """Gradients as a backward leaves them. The program may have averaged them within it: in a callback, or in hooks of nodes, of which
        nothing is known but that it reduced about as much."""
        size = sum(t.numel() for _, t in named if t is not None)
        if self.called.get(of):
            self.tell_hooked(of, self.called[of])
        elif not 0 < size <= self.record.by_hand.summed - self.begun[2] <= 1.1 * size:
            self.leave(of, named)

    def leave(self, of, named):
        """Gradients of a backward that nothing has averaged yet."""
        tensors = sample_of_each(named) if self.record.step < STEPS_MOST else {}
        if tensors:
            self.own[of] = *self.sent(), {*tensors, *self.own.get(of, (0, 0, ()))[2]}
            self.record.fact("own gradients", of=of, tensors=tensors)

    def average(self, of, named):
        """They are averaged, or an update takes them, of which samples of the ranks' own were recorded."""
        *_, names = self.own.pop(of, ((),))
        if names:
            self.record.fact("averaged gradients", of=of, tensors=sample_of_each(each for each in named if each[0] in names))

    def clip(self, how, parameters, *args, **kwargs):
        given = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        if type(given) not in (list, tuple, torch.nn.ParameterList):  # A generator is read once, by the program.
            given = []
        is_unscaled = not self.unscaled.isdisjoint(map(id, given)) if given else bool(self.unscaled)
        is_scaled = self.is_scaled and self.scale > 1 and not is_unscaled and self.record.training.are_as_after_backward()
        most = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value"))
        self.record.at("update")
        self.average_reduced()  # A clip that comes behind an average hides what was averaged.
        result, error = yield
        if error is None and self.record.step < STEPS_MOST:
            own = [of for of, (count, *_) in self.own.items() if count == self.record.collectives.count]
            self.record.fact("clip", function=how, most=number_of(most), norm=number_of(result), own=own, scale=self.scale if is_scaled else 1.0)

    def multiply(self, scaler, outputs, *args, **kwargs):
        result, error = yield
        if error is None and field(scaler, "_enabled") and self.record.step < STEPS_MOST:
            made = [result] if isinstance(result, torch.Tensor) else result if type(result) in (list, tuple) else []
            self.scaled = self.scaled[-7:] + [weakref.ref(each) for each in made if isinstance(each, torch.Tensor)]
            self.scale = number_of(field(scaler, "_scale")) or 1.0

    def sent(self):
        return self.record.collectives.count, self.record.collectives.elements

    def average_reduced(self):
        """The program's collectives have changed gradients of its optimizers since the last backward, and another one adds to them, or a
        clip changes them again."""
        training = self.record.training
        sent = {of: self.record.collectives.elements - elements for of, (_, elements, _) in self.own.items()}
        for optimizer in training.names.live() if any(sent.values()) else ():
            name, strangers = training.names.of(optimizer), training.strangers(optimizer, training.owners())
            gradients = gradients_of(strangers)
            size = sum(t.numel() for _, t in gradients if t is not None)
            if 0 < size <= 2 * sent.get(name, 0):
                self.average(name, gradients)

    def begin_backward(self, losses):
        self.average_reduced()
        self.own.clear()  # It adds to them, within no_sync say.
        self.hooked.clear()
        self.hooking.clear()  # A hook may have raised.
        self.called, self.begun = {}, (*self.sent(), self.record.by_hand.summed)
        known = [each for each in (reference() for reference in self.scaled) if each is not None]
        self.is_scaled = any(loss is each for loss in losses for each in known)
        self.record.by_hand.begin_backward(losses)

    def unscale(self, scaler, optimizer, *args, **kwargs):
        _, error = yield
        if error is None:
            self.unscaled.update(id(p) for group in optimizer.param_groups for p in group["params"])

    def end_update(self, optimizer):
        self.unscaled.difference_update(id(p) for group in optimizer.param_groups for p in group["params"])
        self.unwaited.clear()

    def reduce_later(self, tensors):
        """A reduction that the program has begun and not waited for yet."""
        entry = [[weakref.ref(t) for t in tensors if is_plain(t)], False]
        self.unwaited.append(entry)
        self.unwaited = self.unwaited[-10000:]
        return entry

    def take(self, parameters):
        """An update takes their gradients: says so where a reduction of one may still run."""
        running = (reference() for references, is_waited in self.unwaited if not is_waited for reference in references)
        memory = {t.untyped_storage().data_ptr() for t in running if t is not None}
        of_all = [p.grad for p in parameters if p.is_leaf and is_plain(p.grad)] if memory else ()
        count = sum(t.untyped_storage().data_ptr() in memory for t in of_all)
        if count:
            self.record.fact("unwaited", gradients=count, of=len(of_all))
