"""Ranks with batches of different sizes, as Hypothesis draws them."""

import torch
from hypothesis import given
from torch.nn.functional import mse_loss

import lockstep
from averaging import average_over_samples
from lockstep import strategies


@lockstep.world(2, 3)
@given(model=strategies.models(), batch=strategies.batches())
def test_gradients_are_those_of_the_whole_batch(rank, model, batch):
    network, alone = model.build(), model.build()
    inputs, targets = batch.of(rank)
    mse_loss(network(inputs), targets).backward()
    average_over_samples(network, len(inputs))

    inputs, targets = batch.whole()
    mse_loss(alone(inputs), targets).backward()
    for mine, whole in zip(network.parameters(), alone.parameters()):
        torch.testing.assert_close(mine.grad, whole.grad)
