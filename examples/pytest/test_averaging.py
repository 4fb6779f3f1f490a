import pytest
import torch
import torch.distributed as dist

import lockstep
from averaging import average_gradients, train


@pytest.fixture
def model():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


@lockstep.world(2, 3, 4)
def test_gradients_are_averages(rank, world_size, model):
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, float(rank))
    average_gradients(model)
    for parameter in model.parameters():
        assert torch.equal(parameter.grad, torch.full_like(parameter, (world_size - 1) / 2))


@lockstep.world(2)
def test_a_step_sends_one_all_reduce(model):
    model(torch.randn(3, 4)).sum().backward()
    average_gradients(model)
    assert [(each.kind, each.bytes) for each in lockstep.collectives()] == [("allreduce", 4 * (4 * 8 + 8 + 8 * 2 + 2))]


@lockstep.world(2)
def test_a_parameter_without_a_gradient_stays_as_it_is(rank, model):
    model[0](torch.randn(3, 4)).sum().backward()
    average_gradients(model)
    assert model[2].weight.grad is None
    both = [torch.empty_like(model[0].weight) for _ in range(2)]
    dist.all_gather(both, model[0].weight.grad)
    assert torch.equal(*both)


def test_training_is_that_of_one_process():
    generator = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(64, 4, generator=generator), torch.randn(64, 2, generator=generator))

    def training(context):
        network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        train(lockstep.watch(network), context.batches(data, global_batch_size=8))

    lockstep.same_as_one_process(training, worlds=(2, 4), steps=5)
