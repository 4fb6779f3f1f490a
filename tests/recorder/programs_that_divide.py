"""Programs that divide models, states or inputs, or average by hand."""

import torch
import torch.distributed as dist
from torch.distributed import all_reduce
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from training_of_models import network, train
from watched_programs import WORLD, program, say
import lockstep_recorder


@program
def fully_sharded(rank):
    for use_original in (False, True):
        sharded = FullyShardedDataParallel(network(), device_id=torch.device("cpu"), use_orig_params=use_original)
        train(sharded, torch.optim.AdamW(sharded.parameters(), lr=0.01))


@program
def fully_sharded_by_layer(rank):
    net = network()
    mesh = init_device_mesh("cpu", (WORLD,))
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for step in range(3):
        net.set_requires_gradient_sync(step != 0)
        net(torch.randn(8, 4)).square().mean().backward()
        if step:
            optimizer.step()
            optimizer.zero_grad()
    say(list(net.parameters()))


@program
def tensor_parallel(rank):
    torch.manual_seed(0)
    net = parallelize_module(network(), init_device_mesh("cpu", (WORLD,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(net, torch.optim.Adam(net.parameters(), lr=0.01, foreach=False))


@program
def divided_state(rank):
    ddp = DistributedDataParallel(network())
    train(ddp, ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=0.01))


def averaged(model):
    value = model(torch.randn(8, 4)).square().mean()
    value.backward(retain_graph=True)
    for p in model.parameters():
        all_reduce(p.grad.data)
        p.grad.data /= WORLD
    return value * 0


@program
def averaged_by_hand(rank):
    net = network()
    for p in net.parameters():
        dist.broadcast(p.data, 0)
    train(net, loss=averaged)


@program
def averaged_by_hand_and_watched(rank):
    net = network()
    for p in net.parameters():
        dist.broadcast(p.data, src=0)
    assert lockstep_recorder.watch(net) is net
    train(net, loss=averaged)


@program
def uneven_inputs(rank):
    ddp = DistributedDataParallel(network())
    with ddp.join():
        train(ddp, steps=2 + rank)
