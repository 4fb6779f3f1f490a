"""Programs whose models, backwards and updates are of all kinds."""

import copy
import io
import pickle

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import all_reduce
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from training_of_models import network, sgd, train
from watched_programs import program, say


@program
def wrapped(rank):
    train(DistributedDataParallel(network()))


class Checkpointed(nn.Module):
    def __init__(self, is_reentrant):
        super().__init__()
        self.is_reentrant, self.first, self.block = is_reentrant, nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2))

    def forward(self, x):
        return checkpoint(self.block, self.first(x), use_reentrant=self.is_reentrant)


@program
def checkpoint_reentrant(rank):
    train(DistributedDataParallel(Checkpointed(True)))


@program
def checkpoint_not_reentrant(rank):
    train(DistributedDataParallel(Checkpointed(False)))


@program
def lbfgs(rank):
    ddp = DistributedDataParallel(network())
    x, optimizer = torch.randn(8, 4), torch.optim.LBFGS(ddp.parameters(), lr=0.1, max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = ddp(x).square().mean()
        loss.backward()
        return loss
    for _ in range(2):
        say(optimizer.step(closure).detach())
    say(ddp)


@program
def autocast(rank):
    def loss(model):
        with torch.autocast("cpu", torch.bfloat16):
            value = model(torch.randn(8, 4)).square().mean()
            return value
    train(DistributedDataParallel(network()), loss=loss)


@program
def scaled_gradients(rank):
    ddp, scaler = DistributedDataParallel(network()), torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = sgd(ddp)
    for step in range(4):
        optimizer.zero_grad()
        scaler.scale(ddp(torch.randn(8, 4) * (float("inf") if step == 1 else 1)).square().mean()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(ddp.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
    say(scaler.get_scale(), ddp)


@program
def adversaries(rank):
    maker, judge = DistributedDataParallel(nn.Linear(3, 4)), DistributedDataParallel(network(), broadcast_buffers=False)
    makes, judges = sgd(maker), sgd(judge)
    for _ in range(3):
        judges.zero_grad()
        fake = maker(torch.randn(8, 3))
        (judge(fake.detach()).mean() - judge(torch.randn(8, 4)).mean()).backward()
        judges.step()
        makes.zero_grad()
        judge.requires_grad_(False)
        judge.module(fake).mean().backward()
        judge.requires_grad_(True)
        makes.step()
    say(maker, judge)


class Adapter(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.down, self.up = inner.requires_grad_(False), nn.Linear(4, 2, bias=False), nn.Linear(2, 8, bias=False)

    def forward(self, x):
        return self.inner(x) + self.up(self.down(x))


@program
def adapters(rank):
    net = network()
    net[0] = Adapter(net[0])
    train(DistributedDataParallel(net))
    later = network()
    ddp = DistributedDataParallel(later)
    later[0] = Adapter(later[0])
    train(ddp, loss=lambda model: model.module(torch.randn(8, 4)).square().mean())


@program
def sharpness_aware(rank):
    """The gradient of moved weights, which are moved back."""
    ddp = DistributedDataParallel(network())
    optimizer = sgd(ddp)
    for _ in range(3):
        x = torch.randn(8, 4)
        ddp(x).square().mean().backward()
        moves = [0.1 * p.grad for p in ddp.parameters()]
        with torch.no_grad():
            torch._foreach_add_(list(ddp.parameters()), moves)
        optimizer.zero_grad()
        ddp(x).square().mean().backward()
        with torch.no_grad():
            torch._foreach_sub_(list(ddp.parameters()), moves)
        optimizer.step()
        optimizer.zero_grad()
    say(ddp)


@program
def averaged_weights(rank):
    """Copies and files of a model that is wrapped, which hold nothing of a recorder."""
    ddp = train(DistributedDataParallel(network()))
    average = copy.deepcopy(ddp.module)
    swa = torch.optim.swa_utils.AveragedModel(ddp.module)
    train(ddp)
    swa.update_parameters(ddp.module)
    with torch.no_grad():
        for own, new in zip(average.parameters(), ddp.module.parameters()):
            own.data.lerp_(new.data, 0.5)
    file = io.BytesIO()
    torch.save({"whole": ddp.module, "state": sgd(ddp, momentum=0.9).state_dict()}, file)
    content = file.getvalue()
    say(b"lockstep" in content, len(pickle.dumps(ddp.module)), average, swa.module)
    file.seek(0)
    train(torch.load(file, weights_only=False)["whole"])


@program
def backward_in_a_backward(rank):
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.square()

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                x.square().backward(grad)
            return x.grad
    train(DistributedDataParallel(network()), loss=lambda model: Inner.apply(model(torch.randn(8, 4))).mean())


@program
def gradients_of_gradients(rank):
    def penalised(model):
        x = torch.randn(8, 4, requires_grad=True)
        y = model(x)
        grad, = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.square().mean() + grad.square().mean()
    train(DistributedDataParallel(network()), loss=penalised)


@program
def hooks_of_the_program(rank):
    ddp, seen = DistributedDataParallel(network()), []
    for number, p in enumerate(ddp.parameters()):
        p.register_hook(lambda grad: grad * 2)
        p.register_post_accumulate_grad_hook(lambda p, number=number: seen.append(number))
    ddp.module[0].register_forward_hook(lambda module, inputs, output: output + 1)
    ddp.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    optimizer = sgd(ddp)
    optimizer.register_step_pre_hook(lambda *_: seen.append("pre"))
    train(ddp, optimizer)
    say(seen, len(ddp.module._forward_pre_hooks), len(torch.nn.modules.module._global_forward_pre_hooks))


@program
def options_of_the_wrapper(rank):
    train(DistributedDataParallel(network(), find_unused_parameters=True))
    train(DistributedDataParallel(network(), static_graph=True, gradient_as_bucket_view=True))
    hooked = DistributedDataParallel(network())
    hooked.register_comm_hook(None, lambda _, bucket: dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0] / 2))
    train(hooked)
    ignoring = network()
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(ignoring, ["0.weight"])
    train(DistributedDataParallel(ignoring))


@program
def accumulation(rank):
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)))
    optimizer = sgd(ddp)
    for _ in range(2):
        with ddp.no_sync():
            ddp(torch.randn(8, 4)).square().mean().backward()
        ddp(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    ddp.eval()
    with torch.inference_mode():
        say(ddp(torch.ones(2, 4)).sum())
    say(ddp, list(ddp.buffers()))


@program
def odd_groups(rank):
    class Odd:
        def __eq__(self, other):
            raise AssertionError("nobody may compare a setting")

        def __bool__(self):
            raise AssertionError("nobody may ask whether a setting is true")

        __hash__ = None
    ddp = DistributedDataParallel(network())
    optimizer = torch.optim.SGD([{"params": ddp.module[0].parameters(), (1, 2): 3, "odd": Odd(), "name": "\udcff", "huge": 1 << 70},
                                 {"params": ddp.module[2].parameters(), "lr": torch.tensor(0.1), "deep": {"a": {"b": {"c": {"d": {}}}}}}], lr=0.05)
    train(ddp, optimizer)


@program
def sparse_and_complex(rank):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.phase = nn.Embedding(8, 4, sparse=True), nn.Parameter(torch.ones(4, dtype=torch.complex64))
            self.scale, self.none = nn.Parameter(torch.ones(())), nn.Parameter(torch.empty(0))

        def forward(self, x):
            return self.words(x).sum(1) * self.phase.abs() * self.scale + self.none.sum()
    train(DistributedDataParallel(Net(), find_unused_parameters=True), loss=lambda model: model(torch.randint(8, (4, 3))).mean())


@program
def lazy_and_tied(rank):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight
            self.dropout = 0.1

        def forward(self, x):
            return nn.functional.dropout(self.second(self.first(x)), self.dropout, self.training)
    train(DistributedDataParallel(Tied()))


@program
def wrapper_in_a_wrapper(rank):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = DistributedDataParallel(nn.Linear(4, 4)), nn.Linear(4, 1)

        def forward(self, x):
            return self.last(self.inner(x))
    outer = Outer()
    outer.last = DistributedDataParallel(outer.last)
    train(outer)
