"""Strategies of Hypothesis for tests in worlds.

    @lockstep.world(2, 3)
    @given(model=strategies.models(), batch=strategies.batches())
    def test_gradients(rank, model, batch):
        network = model.build()
        inputs, targets = batch.of(rank)

They draw plain values, which print as Python that makes them again. Tensors are made of them where a rank asks, and are the same on every rank.
Their numbers are small multiples of 1/8, so that sums of few are exact. Each begins with the simplest: equal splits, one sample, no hidden layer.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("lockstep.strategies needs Hypothesis, which is not installed: pip install hypothesis", name=error.name) from None

from . import _given

NORMS = {"layer": torch.nn.LayerNorm, "batch": torch.nn.BatchNorm1d}
SEEDS = st.integers(0, 2**16)


def eighths(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randint(-8, 9, shape, generator=generator) / 8


@dataclass(frozen=True)
class Model:
    """A small network: linear layers with tanh between them, and a layer of normalisation behind the first one if `norm` names it."""

    features: int
    outputs: int
    hidden: tuple[int, ...] = ()  # Widths.
    bias: bool = True
    norm: str = ""  # "layer", "batch", which has buffers, or none.
    seed: int = 0

    def build(self) -> torch.nn.Sequential:
        """Local. Returns the network; the process's generators stay as they are."""
        generator = torch.Generator().manual_seed(self.seed)
        widths, layers = (self.features, *self.hidden, self.outputs), list[torch.nn.Module]()
        for number, (before, after) in enumerate(zip(widths, widths[1:])):
            linear = torch.nn.utils.skip_init(torch.nn.Linear, before, after, bias=self.bias)  # type: ignore[no-untyped-call]
            for parameter in linear.parameters():
                parameter.data = eighths(tuple(parameter.shape), generator)
            layers += [torch.nn.Tanh(), linear] if number else [linear]
            if self.norm and number == 0:
                layers.append(NORMS[self.norm](after))
        return torch.nn.Sequential(*layers)


@dataclass(frozen=True)
class Batch:
    """A global batch, of which each rank has a part: `split` has the number of samples of each."""

    split: tuple[int, ...]
    features: int
    outputs: int
    seed: int = 0

    def whole(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of all ranks."""
        generator = torch.Generator().manual_seed(self.seed)
        samples = sum(self.split)
        return eighths((samples, self.features), generator), eighths((samples, self.outputs), generator)

    def of(self, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of one rank."""
        inputs, targets = (torch.split(each, list(self.split))[rank] for each in self.whole())
        return inputs, targets


def worlds(min_size: int = 1, max_size: int = 4) -> st.SearchStrategy[int]:
    """Sizes of worlds, for lockstep.run_world; a test of lockstep.world has its own."""
    return st.integers(min_size, max_size)


@st.composite
def splits(draw: st.DrawFn, samples: int | None = None, *, min_samples: int = 1, max_samples: int = 4,
           world_size: int | None = None) -> tuple[int, ...]:
    """Numbers of samples for the ranks, one each: alike at first, then uneven.

    samples: their sum; where it is not given, each rank has min_samples to max_samples.
    min_samples: of each rank; 0 lets ranks have none.
    world_size: how many ranks; in a test of lockstep.world its own, elsewhere one to four.
    """
    size = world_size or _given.world_size or draw(worlds())
    if samples is None:
        return tuple(draw(st.integers(min_samples, max_samples)) for _ in range(size))
    if samples < size * min_samples:
        raise ValueError(f"{samples} samples cannot be split over {size} ranks with at least {min_samples} each")
    split: list[int] = []
    for others in range(size - 1, -1, -1):
        rest = samples - sum(split)
        alike, most = rest // (others + 1), rest - others * min_samples
        split.append(alike + draw(st.integers(min_samples - alike, most - alike)) if others else rest)
    return tuple(split)


def batches(features: int = 2, outputs: int = 1, *, min_samples: int = 1, max_samples: int = 4,
            world_size: int | None = None) -> st.SearchStrategy[Batch]:
    """Batches whose samples are split over the ranks as `splits` has it."""
    split = splits(min_samples=min_samples, max_samples=max_samples, world_size=world_size)
    return st.builds(Batch, split=split, features=st.just(features), outputs=st.just(outputs), seed=SEEDS)


def models(features: int = 2, outputs: int = 1, *, max_hidden: int = 2, norms: tuple[str, ...] = ("",)) -> st.SearchStrategy[Model]:
    """Networks that take the inputs of `batches` and return what its targets are compared with.

    max_hidden: how many hidden layers at most, each one to four wide.
    norms: of which `norm` is drawn. "batch" does not average as one process does; "layer" of few features amplifies rounding.
    """
    hidden = st.lists(st.integers(1, 4), max_size=max_hidden).map(tuple)
    return st.builds(Model, features=st.just(features), outputs=st.just(outputs), hidden=hidden, bias=st.booleans(),
                     norm=st.sampled_from(norms), seed=SEEDS)
