"""Features of torch.distributed, each as a function that every rank of a world of four runs and that returns what it computed. ROWS
is the table of docs/python.md."""

import contextlib
import datetime
import os
import tempfile
import threading
import warnings

import lockstep
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WORLD, RELEASE = 4, tuple(map(int, torch.__version__.split(".")[:2]))
warnings.filterwarnings("ignore")


def own(rank, *shape, seed=0):
    """Numbers of this rank's own, whose sum depends on its order."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1000 * seed + rank)) * 10.0 ** rank


def before(release, sentence):
    """The sentence of a feature that only newer releases have. The package is tried with 2.11, 2.12 and 2.15."""
    return sentence if RELEASE < release else "yes"


def alike(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def network(width=8):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, width))


def values(model):
    return {name: value.full_tensor() if hasattr(value, "full_tensor") else value.detach().clone() for name, value in model.state_dict().items()}


def steps(model, optimizer, rank, count=3, width=8):
    losses = []
    for step in range(count):
        optimizer.zero_grad()
        loss = model(own(rank, 4, width, seed=step) / 10.0 ** rank).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def all_reduce(rank):
    found = []
    for op in dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX:
        for size in 1, 7, 1000:
            dist.all_reduce(tensor := own(rank, size), op=op)
            found.append(tensor)
    dist.all_reduce(tensor := torch.tensor([1 << rank, 3]), op=dist.ReduceOp.BOR)
    return [*found, tensor]


def reduce(rank):
    found = []
    for root in range(WORLD):
        dist.reduce(tensor := own(rank, 33), root)
        found.append(tensor if rank == root else None)  # Others' are not defined.
    return found


def broadcast(rank):
    dist.broadcast(tensor := own(rank, 5), 2)
    return tensor


def gathers(rank):
    parts = [torch.zeros(3) for _ in range(WORLD)]
    dist.all_gather(parts, own(rank, 3))
    dist.all_gather_into_tensor(whole := torch.zeros(3 * WORLD), own(rank, 3))
    dist.gather(own(rank, 3), gathered := [torch.zeros(3) for _ in range(WORLD)] if rank == 1 else None, 1)
    dist.scatter(part := torch.zeros(2), [own(each, 2) for each in range(WORLD)] if rank == 3 else None, 3)
    return parts, whole, gathered, part


def reduce_scatters(rank):
    dist.reduce_scatter_tensor(part := torch.zeros(5), own(rank, 5 * WORLD))
    dist.reduce_scatter(other := torch.zeros(3), [own(rank, 3, seed=each) for each in range(WORLD)])
    return part, other


def all_to_all(rank):
    outputs = [torch.zeros(2) for _ in range(WORLD)]
    dist.all_to_all(outputs, [own(rank, 2, seed=each) for each in range(WORLD)])
    return outputs


def all_to_all_single(rank):
    dist.all_to_all_single(even := torch.zeros(2 * WORLD), own(rank, 2 * WORLD))
    dist.all_to_all_single(uneven := torch.zeros(WORLD * (rank + 1)), own(rank, 10), [rank + 1] * WORLD, [1, 2, 3, 4])
    return even, uneven


def messages(rank):
    dist.send(own(rank, 3), (rank + 1) % WORLD) if rank % 2 else dist.recv(first := torch.zeros(3), rank - 1 if rank else WORLD - 1)
    request = dist.isend(own(rank, 2), (rank + 2) % WORLD, tag=5)
    dist.irecv(second := torch.zeros(2), (rank + 2) % WORLD, tag=5).wait()
    request.wait()
    if rank == 1:
        dist.send(torch.tensor([7.0]), 0)
    source = dist.recv(third := torch.zeros(1)) if rank == 0 else None
    return None if rank % 2 else first, second, source, third if rank == 0 else None


def batch_isend_irecv(rank):
    ahead, behind = (rank + 1) % WORLD, (rank - 1) % WORLD
    received = torch.zeros(4), torch.zeros(4)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, own(rank, 4), ahead), dist.P2POp(dist.irecv, received[0], behind),
                                        dist.P2POp(dist.isend, own(rank, 4), behind), dist.P2POp(dist.irecv, received[1], ahead)]):
        work.wait()
    return received


def objects(rank):
    dist.all_gather_object(everything := [None] * WORLD, {"rank": rank, "of": "x" * rank})
    dist.broadcast_object_list(sent := [rank, "a"], src=2)
    dist.gather_object(rank, gathered := [None] * WORLD if rank == 0 else None)
    dist.scatter_object_list(own_part := [None], [str(each) for each in range(WORLD)] if rank == 1 else None, src=1)
    if rank == 0:
        dist.send_object_list([1, "two"], 3)
    if rank == 3:
        dist.recv_object_list(received := [None, None], 0)
    return everything, sent, gathered, own_part, received if rank == 3 else None


def barriers(rank):
    dist.barrier()
    dist.monitored_barrier()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=20), wait_all_ranks=True)
    dist.barrier(async_op=True).wait()


def futures(rank):
    work = dist.all_reduce(tensor := own(rank, 3), async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2).wait()
    work.wait()
    return tensor, doubled, work.is_completed()


def coalescing(rank, **options):
    tensors = [own(rank, 3), own(rank, 4, seed=1)]
    with dist._coalescing_manager(**options):
        for tensor in tensors:
            dist.all_reduce(tensor)
    dist.all_reduce_coalesced(others := [own(rank, 3), own(rank, 4, seed=1)])
    return tensors, others


def coalescing_on_a_device(rank):
    return coalescing(rank, device=torch.device("cpu"))


def groups(rank):
    halves = [dist.new_group(part) for part in ([0, 2], [1, 3])]
    dist.all_reduce(half := own(rank, 3), group=halves[rank % 2])
    mine, _ = dist.new_subgroups(2)
    dist.all_reduce(pair := own(rank, 3), group=mine)
    mine, _ = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
    dist.all_reduce(crossed := own(rank, 3), group=mine)
    if rank < 2 and RELEASE != (2, 15):  # There the next group of all hangs (docs/findings.md).
        local = dist.new_group([0, 1], use_local_synchronization=True)
        dist.all_reduce(crossed, group=local)
    everyone = dist.new_group()
    dist.broadcast(half, 1, group=everyone)
    told = [dist.get_process_group_ranks(halves[rank % 2]), dist.get_group_rank(halves[rank % 2], rank), dist.get_backend(everyone),
            dist.get_world_size(mine), everyone.group_name, halves[rank % 2].group_name]
    dist.destroy_process_group(everyone)
    return half, pair, crossed, told


def split_group(rank):
    half = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    dist.all_reduce(tensor := own(rank, 3), group=half)
    return tensor


def group_anew(rank):
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    was = dist.is_initialized()
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, store=dist.PrefixStore("again", store))
    dist.all_reduce(tensor := own(rank, 3))
    return was, tensor


def store(rank):
    held = dist.distributed_c10d._get_default_store()
    held.set(f"key{rank}", str(rank))
    held.wait([f"key{each}" for each in range(WORLD)])
    files = dist.FileStore(os.path.join(tempfile.gettempdir(), f"store-{os.environ['STORE']}"), WORLD)
    files.set(f"key{rank}", "of a file")
    return held.get(f"key{(rank + 1) % WORLD}"), held.check(["none"]), files.get(f"key{(rank + 1) % WORLD}")


def rpc(rank):
    from torch.distributed.rpc import init_rpc, rpc_sync, shutdown
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="0")
    store = dist.distributed_c10d._get_default_store()
    dist.rendezvous = lambda *_, **__: iter([(dist.PrefixStore("rpc", store), rank, WORLD)])  # Without a port.
    init_rpc(str(rank), rank=rank, world_size=WORLD)
    total = rpc_sync(str((rank + 1) % WORLD), torch.add, (torch.ones(1), rank))
    shutdown()
    return total


def threads(rank):
    seen = []

    def issue():
        try:
            dist.all_reduce(own(rank, 1))
        except RuntimeError as error:
            seen.append(error)
    thread = threading.Thread(target=issue)
    thread.start()
    thread.join()
    for error in seen:
        raise error


def collectives(rank):
    model = DistributedDataParallel(network())
    steps(model, torch.optim.SGD(model.parameters(), 0.1), rank, 2)
    dist.all_reduce(own(rank, 1))
    return lockstep.collectives()


def functional_collectives(rank):
    found = [functional.all_reduce(own(rank, 3), "sum", dist.group.WORLD), functional.all_gather_tensor(own(rank, 3), 0, dist.group.WORLD),
             functional.reduce_scatter_tensor(own(rank, 8), "sum", 0, dist.group.WORLD), functional.broadcast(own(rank, 3), 1, dist.group.WORLD),
             functional.all_to_all_single(own(rank, 4), None, None, dist.group.WORLD)]
    found += functional.all_reduce_coalesced([own(rank, 2), own(rank, 3)], "sum", dist.group.WORLD)
    name = dist.group.WORLD.group_name
    found.append(torch.ops._c10d_functional.wait_tensor(torch.ops._c10d_functional.all_reduce(own(rank, 3), "max", name)))
    return [each.clone() for each in found]


def differentiable_collectives(rank):
    x = own(rank, 4).requires_grad_()
    total = differentiable.all_reduce(x)
    parts = torch.cat(differentiable.all_gather(x))
    (total.square().sum() + parts.square().sum()).backward()
    y = own(rank, 4).requires_grad_()
    functional.all_gather_tensor_autograd(y, 0, dist.group.WORLD).square().sum().backward()
    return total.detach(), x.grad, y.grad


def device_mesh(rank):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    found = []
    for name in "dp", "tp":
        dist.all_reduce(tensor := own(rank, 3), group=mesh.get_group(name))
        found += [tensor, mesh[name].get_local_rank(), mesh.get_coordinate()]
    dist.all_reduce(tensor := own(rank, 3), group=mesh["dp", "tp"]._flatten("all").get_group())
    return [*found, tensor]


def dtensor(rank):
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
    mesh = dist.init_device_mesh("cpu", (WORLD,))
    sharded = distribute_tensor(alike(8, 6), mesh, [Shard(0)])
    other = distribute_tensor(alike(6, 8), mesh, [Shard(1)])
    found = [sharded.to_local(), (sharded @ other).full_tensor(), sharded.sum(0).full_tensor(), sharded.redistribute(mesh, [Shard(1)]).to_local(),
             DTensor.from_local(own(rank, 5), mesh, [Partial()]).redistribute(mesh, [Replicate()]).to_local(),
             distribute_tensor(alike(7, 3), mesh, [Shard(0)]).to_local()]
    plane = dist.init_device_mesh("cpu", (2, 2))
    found.append(distribute_tensor(alike(8, 6), plane, [Shard(0), Shard(1)]).redistribute(plane, [Replicate(), Shard(0)]).to_local())
    layer = distribute_module(nn.Linear(6, 4), mesh)
    layer(sharded).sum().backward()
    return [*found, layer.weight.grad.full_tensor()]


def tensor_parallel(rank):
    from torch.distributed.tensor import DTensor, Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module
    mesh = dist.init_device_mesh("cpu", (WORLD,))
    model = parallelize_module(network(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    found = steps(model, torch.optim.SGD(model.parameters(), 0.1), 0)  # The same inputs on all ranks.
    norm = parallelize_module(nn.LayerNorm(8), mesh, SequenceParallel())
    head = parallelize_module(nn.Linear(8, 12), mesh, ColwiseParallel(use_local_output=False))
    with loss_parallel():
        loss = nn.functional.cross_entropy(head(alike(6, 8)), torch.tensor([0, 3, 7, 11, 2, 5]))
        loss.backward()
    return found, values(model), norm(alike(1, 8, 8)).to_local(), loss.full_tensor() if isinstance(loss, DTensor) else loss, head.weight.grad.full_tensor()


def fully_shard(rank):
    from torch.distributed.fsdp import fully_shard
    mesh = dist.init_device_mesh("cpu", (WORLD,))
    model = network()
    for layer in model[0], model[2], model:
        fully_shard(layer, mesh=mesh)
    return steps(model, torch.optim.AdamW(model.parameters(), 0.1), rank), values(model)


def fully_shard_in_two_dimensions(rank):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    hybrid = fully_shard(network(), mesh=dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))
    found = steps(hybrid, torch.optim.SGD(hybrid.parameters(), 0.1), rank)
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = parallelize_module(network(), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    return found, values(hybrid), steps(model, torch.optim.SGD(model.parameters(), 0.1), rank // 2), values(model)


def fsdp1(rank):
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    found = []
    for strategy in ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD:
        model = FullyShardedDataParallel(network(), sharding_strategy=strategy, use_orig_params=True, device_id=torch.device("cpu"))
        found.append(steps(model, torch.optim.SGD(model.parameters(), 0.1), rank))
        with FullyShardedDataParallel.summon_full_params(model):
            found.append([parameter.detach().clone() for parameter in model.parameters()])
    return found


def ddp(rank):
    found = []
    for options in {}, {"bucket_cap_mb": 0.0001}, {"find_unused_parameters": True}, {"static_graph": True}, {"gradient_as_bucket_view": True}:
        model = DistributedDataParallel(network(), **options)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        found.append(steps(model, optimizer, rank))
        if "static_graph" not in options:
            with model.no_sync():
                model(own(rank, 4, 8)).sum().backward()
            found.append(steps(model, optimizer, rank, 1))
        found.append(values(model))
    return found


def ddp_hooks(rank):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    found = []
    for state, hook in ((None, default_hooks.allreduce_hook), (None, default_hooks.fp16_compress_hook), (None, default_hooks.bf16_compress_hook),
                        (powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)):
        model = DistributedDataParallel(network())
        model.register_comm_hook(state, hook)
        found += [steps(model, torch.optim.SGD(model.parameters(), 0.1), rank, 4), values(model)]
    return found


def own_hook(rank):
    def hook(state, bucket):
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda future: future.value()[0] / 3)
    model = DistributedDataParallel(network())
    model.register_comm_hook(None, hook)
    return steps(model, torch.optim.SGD(model.parameters(), 0.1), rank), values(model)


def replicate(rank):
    from torch.distributed._composable.replicate import replicate
    model = replicate(network())
    return steps(model, torch.optim.SGD(model.parameters(), 0.1), rank), values(model)


def join(rank):
    from torch.distributed.algorithms.join import Join
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with model.join():
        found = steps(model, optimizer, rank, 1 + rank)
    with Join([model]):
        found += steps(model, optimizer, rank, 2 + rank % 2)
    return found, values(model)


def zero(rank):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    found = steps(model, optimizer, rank)
    optimizer.consolidate_state_dict(1)
    return found, values(model), optimizer.state_dict()["state"] if rank == 1 else None


def model_averaging(rank):
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer
    model = network()
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), 0.1), PeriodicModelAverager(2, warmup_steps=0))
    return steps(model, optimizer, rank, 4), values(model)


def sync_batch_norm(rank):
    model = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))))
    return model(own(rank, 4, 8))


def checkpoint(rank):
    import torch.distributed.checkpoint as saved
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard
    dist.broadcast_object_list(folder := [tempfile.mkdtemp() if rank == 0 else ""], src=0)
    mesh = dist.init_device_mesh("cpu", (WORLD,))
    first, second = fully_shard(network(), mesh=mesh), network()
    nn.init.zeros_(second[0].weight)
    fully_shard(second, mesh=mesh)
    optimizers = [torch.optim.AdamW(model.parameters(), 0.1) for model in (first, second)]
    found = steps(first, optimizers[0], rank)
    model, state = get_state_dict(first, optimizers[0])
    saved.save({"model": model, "optimizer": state}, checkpoint_id=folder[0])
    model, state = get_state_dict(second, optimizers[1])
    saved.load({"model": model, "optimizer": state}, checkpoint_id=folder[0])
    set_state_dict(second, optimizers[1], model_state_dict=model, optim_state_dict=state)
    return found, values(second), steps(second, optimizers[1], rank, 1), sorted(os.listdir(folder[0]))


def asynchronous_checkpoint(rank):
    import torch.distributed.checkpoint as saved
    dist.broadcast_object_list(folder := [tempfile.mkdtemp() if rank == 0 else ""], src=0)
    saved.async_save({"weight": alike(4)}, checkpoint_id=folder[0], process_group=dist.new_group()).result()
    return sorted(os.listdir(folder[0]))


def pipeline(rank):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    found = []
    for schedule in ScheduleGPipe, Schedule1F1B:
        layer = network()
        stage = PipelineStage(layer, rank, WORLD, torch.device("cpu"))
        run = schedule(stage, 4, loss_fn=nn.functional.mse_loss)
        losses = []
        arguments = [alike(8, 8)] if rank == 0 else []
        more = {"target": torch.zeros(8, 8), "losses": losses} if rank == WORLD - 1 else {}
        found.append(run.step(*arguments, **more))
        found.append([losses, [parameter.grad for parameter in layer.parameters()]])
    return found


def samplers(rank):
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
    data = TensorDataset(torch.arange(40.0))
    loader = DataLoader(data, 3, sampler=DistributedSampler(data, seed=4))
    workers = DataLoader(data, 3, sampler=DistributedSampler(data, shuffle=False), num_workers=1)
    return [batch[0] for batch in loader], [batch[0] for batch in workers]


def compiled(rank):
    @torch.compile(backend="aot_eager", fullgraph=True)
    def function(x):
        return functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1
    return function(own(rank, 5))


def timeouts(rank):
    def of(group):
        return group._get_backend(torch.device("cpu")).options._timeout
    one, other = dist.new_group(timeout=datetime.timedelta(seconds=77)), dist.new_group([0, 2])
    found = [of(one), of(other) if rank in (0, 2) else None]
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=88), one)
    dist.all_reduce(total := own(rank, 3), group=one)
    changed = [of(one)] if RELEASE < (2, 15) else []  # Since then simulated groups report the timeout they were made with.
    return [*found, *changed, total]


def profiler_of_one_rank(rank):
    found = []
    for profiled in 0, 2:
        with torch.profiler.profile() if rank == profiled else contextlib.nullcontext() as seen:
            dist.all_reduce(own(rank, 3))
        dist.barrier()
        found.append({"aten::randn", "c10d::allreduce_"} <= {event.name for event in seen.events()} if seen else None)
    return found


def profilers(rank):
    seen, error, errors = torch.profiler.profile(), None, [None] * WORLD
    try:
        seen.start()
    except Exception as thrown:
        error = thrown
    dist.all_gather_object(errors, error)
    if not error:
        seen.stop()
    for each in filter(None, errors):
        raise each
    return "c10d::_allgather_base_" in {event.name for event in seen.events()}


def environment(rank):
    return dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.is_initialized(), os.environ["RANK"], os.environ["LOCAL_WORLD_SIZE"]


# A feature, its functions, and what forked and simulated ranks say of it; "yes": they compute the same to the last bit.
ROWS = (
    ("`all_reduce`, `reduce`, `broadcast`, `gather`, `scatter`, `all_gather`, `reduce_scatter`, `all_to_all_single`, and those of one tensor",
     (all_reduce, reduce, broadcast, gathers, reduce_scatters, all_to_all_single), "yes", "yes"),
    ("`all_to_all`", (all_to_all,), before((2, 12), "Backend gloo does not support alltoall"), "yes"),
    ("`send`, `recv`, `isend`, `irecv`, `batch_isend_irecv`, from any source too", (messages, batch_isend_irecv), "yes", "yes"),
    ("Objects: `all_gather_object`, `broadcast_object_list`, `gather_object`, `scatter_object_list`, `send_object_list`", (objects,), "yes", "yes"),
    ("`barrier`, `monitored_barrier`, `async_op`, futures", (barriers, futures), "yes", "yes"),
    ("`all_reduce_coalesced`, a coalescing manager", (coalescing,), "yes", "yes"),
    ("A coalescing manager on a device", (coalescing_on_a_device,), "does not implement startCoalescing", "does not implement startCoalescing"),
    ("`new_group`, `new_subgroups`, `new_subgroups_by_enumeration`, `destroy_process_group` and `init_process_group` again, stores",
     (groups, group_anew, store, environment, collectives), "yes", "yes"),
    ("Timeouts of groups, as `new_group` has set them or was not asked to", (timeouts,), "yes", "yes"),
    ("`split_group`", (split_group,), *2 * (before((2, 15), "No device associated with the default pg"),)),
    ("Functional and differentiable collectives, `torch.compile` around them", (functional_collectives, differentiable_collectives, compiled), "yes", "yes"),
    ("`DeviceMesh`, `DTensor`, `parallelize_module`, `loss_parallel`", (device_mesh, dtensor, tensor_parallel), "yes", "yes"),
    ("`fully_shard`, in two dimensions too, `FullyShardedDataParallel`", (fully_shard, fully_shard_in_two_dimensions, fsdp1), "yes", "yes"),
    ("`DistributedDataParallel` and its hooks, `replicate`, `Join`", (ddp, ddp_hooks, own_hook, replicate, join), "yes", "yes"),
    ("`ZeroRedundancyOptimizer`, `PostLocalSGDOptimizer`", (zero, model_averaging), "yes", "yes"),
    ("`SyncBatchNorm`", (sync_batch_norm,), *2 * ("SyncBatchNorm layers only work with GPU modules",)),
    ("`torch.distributed.checkpoint`: `save`, `load`, `get_state_dict`, `set_state_dict`", (checkpoint,), "yes", "yes"),
    ("`async_save`, and collectives of any thread that a rank starts", (asynchronous_checkpoint, threads), "yes",
     "a thread that a simulated rank has started cannot use torch.distributed"),
    ("Pipelines: `PipelineStage`, `ScheduleGPipe`, `Schedule1F1B`", (pipeline,), "yes", "yes"),
    ("`DistributedSampler`, a `DataLoader` and its workers", (samplers,), "yes", "yes"),
    ("`torch.profiler` on one rank at a time", (profiler_of_one_rank,), "yes", "yes"),
    ("`torch.profiler` on all ranks at once", (profilers,), "yes", "a process has one profiler"),
    ("`torch.distributed.rpc`", (rpc,), "yes", "torch.distributed.rpc is not there for simulated ranks"),
)


def table():
    return ["| | `cold`, `warm` | `sim` |", "|---|---|---|", *(f"| {title} | {forked} | {simulated} |" for title, _, forked, simulated in ROWS)]


def comparable(value):
    """Bit for bit, and of any structure."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), bytes(value.detach().contiguous().flatten().view(torch.uint8).tolist())
    if isinstance(value, dict):
        return [(repr(key), comparable(each)) for key, each in value.items()]
    return [comparable(each) for each in value] if isinstance(value, (list, tuple)) else repr(value)


def run(rank, name):
    """Returns what the feature computed, or the exception that it threw."""
    try:
        return "value", comparable(globals()[name](rank))
    except Exception as error:
        return "throws", f"{type(error).__name__}: {error}".partition("\n")[0]
