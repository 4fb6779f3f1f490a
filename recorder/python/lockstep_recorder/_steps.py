"""Says what steps do with gradients themselves: hooks of the program change them before, and a step of a class of its own multiplies them."""
import sys

from torch.optim import optimizer as optimizers

from . import _state
from ._gradients import STEPS_MOST, number_of, sample_of_each
from ._hooks import is_compiling, quietly

PAIRS_LEAST = 3  # That say by what one is a multiple of the other.
STEPS_BETWEEN = 4  # Behind the first ones, since a step may multiply in a warm-up alone.
PART = 1e-3  # By which rounding may change a quotient.


def further_hooks(optimizer):
    """The hooks of the program that come last before a step, behind the recorder's, which is one of all optimizers; empty where it has none."""
    own, of_all = optimizer._optimizer_step_pre_hooks, getattr(optimizers, "_global_optimizer_pre_hooks", {})
    if own:
        return own
    is_last = not of_all or getattr(next(reversed(of_all.values())), "__module__", None) == __package__ + "._install"
    return {} if is_last else of_all


class LastHook:
    """Stands for the last of some hooks during one step, and calls `then` behind it. The hooks stay as many as they are, for one that
    removes itself."""

    def __init__(self, hooks, then):
        self.hooks, self.then = hooks, then
        self.key = next(reversed(hooks))
        self.hook = hooks[self.key]
        hooks[self.key] = self

    def __call__(self, optimizer, args, kwargs):
        result = self.hook(optimizer, args, kwargs)
        if not is_compiling() and _state.recorder.is_on():
            quietly("update", self.then, optimizer)
        return result

    def end(self):
        if self.hooks.get(self.key) is self:
            self.hooks[self.key] = self.hook


def is_nested(optimizer):
    """Whether this step runs within another one of the same optimizer: that of its base."""
    frame, depth = sys._getframe(1), 0
    while frame is not None and depth < 2:
        depth += frame.f_code.co_name == "wrapper" and frame.f_locals.get("self") is optimizer
        frame = frame.f_back
    return depth > 1


def is_own(optimizer):
    return not type(optimizer).__module__.startswith("torch.")


def factor_of(pairs):
    """By what number the second value of each pair is the first one's multiple; None where it is not one for all."""
    quotients = [after / before for before, after in pairs if before]
    if len(quotients) < PAIRS_LEAST:
        return None
    first = quotients[0]
    return first if all(abs(each - first) <= PART * abs(first) for each in quotients) else None


class Steps:
    """The steps of optimizers, from before their gradients are taken."""

    def __init__(self, training):
        self.training, self.last_hook = training, None
        self.before = None  # Some values of parameters and gradients as a step of the program's own takes them, and rates.

    def begin(self, optimizer, args, kwargs):
        self.end_hook()
        self.before = self.before if is_nested(optimizer) else None
        if args[1:] or kwargs.get("closure"):
            return  # They are computed within.
        if hooks := further_hooks(optimizer):
            self.last_hook = LastHook(hooks, self.take)
        else:
            self.take(optimizer)

    def take(self, optimizer):
        self.training.take(optimizer, self.training.strangers(optimizer, self.training.owners()))
        step = self.training.record.step
        if self.before is None and is_own(optimizer) and (step < STEPS_MOST or step % STEPS_BETWEEN == 0):
            self.before = *self.values(optimizer), rates_of(optimizer)

    def values(self, optimizer):
        """Some values of its parameters, and of their gradients, by number."""
        named = [(number, p) for number, p in enumerate(p for group in optimizer.param_groups for p in group["params"])]
        return sample_of_each((number, p.detach()) for number, p in named), sample_of_each((number, p.grad) for number, p in named if p.is_leaf)

    def end(self, optimizer, args, kwargs):
        self.end_hook()
        if args[1:] or kwargs.get("closure"):
            self.take(optimizer)
        elif self.before is not None:
            self.tell_factor(optimizer)

    def end_hook(self):
        if self.last_hook is not None:
            self.last_hook.end()
        self.last_hook = None

    def tell_factor(self, optimizer):
        """By what a step multiplied its gradients: as parameters moved, where they moved along these, or in place."""
        parameters, gradients, rates = self.before
        now, left = self.values(optimizer)
        moves = [(rates[number] * gradient, before - after) for number in gradients.keys() & parameters.keys() & now.keys() if rates[number]
                 for gradient, before, after in zip(gradients[number], parameters[number], now[number])
                 if abs(rates[number] * gradient) > PART * abs(before)]
        by = factor_of(moves)
        if by is None:
            by = factor_of([pair for number in gradients.keys() & left.keys() for pair in zip(gradients[number], left[number])])
            by = None if by == 1 else by  # It may multiply a copy.
        if by is not None:
            self.training.record.at("update")
            self.training.record.fact("multiplied", optimizer=self.training.names.of(optimizer), by=by)


def rates_of(optimizer):
    """The learning rate of each parameter, by number."""
    return [number_of(group.get("lr")) for group in optimizer.param_groups for _ in group["params"]]
