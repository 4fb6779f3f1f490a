"""Records what schedulers are asked with."""
import math
import sys

from ._gradients import number_of
from ._objects import field


def metric_of(given):
    """None where only code of the program's own could tell."""
    numpy = sys.modules.get("numpy")
    numbers = (float, numpy.floating, numpy.integer) if hasattr(numpy, "floating") else float
    return float(given) if isinstance(given, numbers) else number_of(given)


class Schedules:
    """The metrics that programs hand to schedulers."""

    def __init__(self, record):
        self.record = record

    def step(self, scheduler, /, *args, **kwargs):
        _, error = yield
        given = args[0] if args else kwargs.get("metrics")
        value = metric_of(given)
        optimizer = field(scheduler, "optimizer")
        names = self.record.training.names
        if error is None and value is not None and math.isfinite(value) and any(each is optimizer for each in names.live()):
            self.record.fact("metric", of=names.of(optimizer), value=value)
