"""Programs that update by hand what no optimizer and no wrapper has: perturbations of samples, deltas, heads, rounds that sum, updates that one rank
leaves out. Right ones and ones with a mistake, all recorded.

usage: programs_of_rounds.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import gc
import sys
import weakref

from programs_of_averages import sgd
from programs_of_habits import BATCH, CLASSES, WIDTH, batches, layers, runs, update
from programs_of_ways import average_by_hand

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from forked_ranks import record_programs


def subtract(model, rate=0.1):
    with torch.no_grad():
        for p in model.parameters():
            p -= rate * p.grad


def perturb(rank, name):
    """A perturbation that is kept over steps: a row for each sample of a rank, or one offset for all samples of all ranks."""
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    rows = {"offset": (), "perturbed_in_part": (2 * BATCH,)}.get(name.partition("_of_")[0], (BATCH,))
    held = {"moved": nn.Parameter(torch.zeros(*rows, WIDTH))}
    moved = held["moved"]
    for x, y in batches():
        for _ in range(2 if name == "perturbed_twice" else 1):
            optimizer.zero_grad()
            moved.grad = None
            cross_entropy(ddp(x.sub(moved) if name == "perturbed_twice" else x + (moved[:len(x)] if name == "perturbed_in_part" else moved)), y).backward()
            if name == "offset_of_all":
                dist.all_reduce(moved.grad)
            with torch.no_grad():
                moved.add_(0.05 * moved.grad.sign()).clamp_(-0.1, 0.1)
            optimizer.step()


def add_to_weights(rank, name):
    """A parameter is added to a frozen weight, which has as many rows as a batch, or to what a table has of one sequence, or to one sample."""
    draw = torch.Generator().manual_seed(3)
    frozen, table = torch.randn(BATCH, WIDTH, generator=draw), torch.randn(CLASSES, BATCH, generator=draw)
    moved, head = nn.Parameter(torch.zeros(BATCH, WIDTH)), nn.Parameter(torch.randn(CLASSES, BATCH, generator=draw))
    single = DataLoader(Sequences(), 1, sampler=DistributedSampler(Sequences()))
    for x, y in batches(None if "delta" in name else single):
        moved.grad = head.grad = None
        if "delta" in name:
            output = x @ (frozen.clone() if "computed" in name else frozen).add(moved).t() @ (table if "only" in name else head).t()
        else:
            output = (x[0] + moved if "patch" in name else frozen[x[0, :, 0].argsort()] + moved).mean(1)[None] @ head.t()
        cross_entropy(output, y).backward()
        for p in (moved, head):
            if p.grad is not None and (p is head or "alone" not in name):
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()
            p.data -= 0 if p.grad is None else 0.1 * p.grad


class Sequences(torch.utils.data.Dataset):
    """Each sample is one of BATCH places."""

    def __len__(self):
        return 16

    def __getitem__(self, number):
        return torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(number)), number % CLASSES


def learn_in_place(rank, name):
    """Reptile: the model itself takes some steps by hand, and moves to what the ranks come to on average, as an optimizer updates it."""
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=0.5)
    for number, (x, y) in enumerate(batches(epochs=3)):
        if number % 3 == 0:
            began = [p.detach().clone() for p in model.parameters()]
        model.zero_grad()
        cross_entropy(model(x), y).backward()
        subtract(model)
        if number % 3 == 2:
            for p, old in zip(model.parameters(), began):
                p.grad = old - p.data
                p.data.copy_(old)
            if name == "moves_to_averages":
                average_by_hand(model)
            optimizer.step()


def free_behind_the_end(rank, name):
    """Each rank trains alone, the models are averaged once, or summed, and freed: the recorder keeps nothing alive."""
    model = layers()
    for x, y in batches():
        model.zero_grad()
        cross_entropy(model(x), y).backward()
        subtract(model)
    for p in model.parameters():
        dist.all_reduce(p.data)
        p.data /= 1 if name == "freed_sum" else dist.get_world_size()
    references = [weakref.ref(p) for p in model.parameters()]
    del model, p
    gc.collect()
    assert not any(each() is not None for each in references)


def train_a_late_head(rank, name):
    """A further head is used from the tenth step on."""
    body, heads = DistributedDataParallel(layers()), [nn.Linear(CLASSES, CLASSES) for _ in range(2)]
    for head in heads:
        for p in head.parameters():
            dist.broadcast(p.data, 0)
    optimizer = sgd(body)
    for number, (x, y) in enumerate(batches(epochs=2)):
        used = heads if number > 8 else heads[:1]
        for each in (body, *used):
            each.zero_grad()
        sum(cross_entropy(head(body(x)), y) for head in used).backward()
        optimizer.step()
        for head in used:
            if name == "late_head" or head is heads[0]:
                average_by_hand(head)
            subtract(head)


def train_a_head(rank, name):
    """By hand, beside a wrapper."""
    ddp, head = DistributedDataParallel(layers()), nn.Linear(CLASSES, CLASSES)
    for p in head.parameters():
        dist.broadcast(p.data, 0)
    optimizer, parts = sgd(ddp), list(batches())
    for number, (x, y) in enumerate(parts):
        optimizer.zero_grad()
        head.zero_grad()
        cross_entropy(head(ddp(x)), y).backward()
        if name == "averaged_to_the_end" or number + 1 < len(parts):
            average_by_hand(head)
        optimizer.step()
        subtract(head)
    dist.barrier()  # As in programs_of_ways.py.
    dist.destroy_process_group()  # While the head is there.


def learn_tasks(rank, name):
    """A copy by hand learns each task, and the model moves to what the ranks' copies come to on average."""
    net, copy = layers(), layers()
    optimizer = torch.optim.SGD(net.parameters(), lr=1)
    for x, y in batches():
        copy.load_state_dict(net.state_dict())
        for _ in range(2):
            copy.zero_grad()
            cross_entropy(copy(x), y).backward()
            subtract(copy)
        for p, moved in zip(net.parameters(), copy.parameters()):
            p.grad = p.data - moved.data
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        optimizer.step()


def leave_out(rank, name):
    """All by hand."""
    model = layers()
    for number, (x, y) in enumerate(batches()):
        model.zero_grad()
        cross_entropy(model(x), y).backward()
        average_by_hand(model)
        if rank == 0 or name == "all_update" or name == "one_leaves_out" and number < 4:
            subtract(model)


def serve(rank, name):
    """Rank 0 updates by hand, and sends the others its parameters before the next forward."""
    model = layers()
    for x, y in batches():
        for p in model.parameters():
            dist.broadcast(p.data, 0)
        model.zero_grad()
        cross_entropy(model(x), y).backward()
        average_by_hand(model)
        if rank == 0:
            subtract(model)


def move_twice_as_far(rank, name):
    """Rounds from zero, of which an outer update moves the model by twice what the ranks came to on average."""
    model = nn.Linear(WIDTH, CLASSES)
    for p in model.parameters():
        nn.init.zeros_(p)
    optimizer = sgd(model, 0.02)
    began = [p.detach().clone() for p in model.parameters()]
    for number, (x, y) in enumerate(batches(epochs=2)):
        update(model, optimizer, x, y)
        if number % 4 != 3:
            continue
        with torch.no_grad():
            for p, before in zip(model.parameters(), began):
                moved = p - before
                dist.all_reduce(moved)
                before += 2 * moved / dist.get_world_size()
                p.copy_(before)


def train_with_noise(rank, name):
    """A head by hand beside a wrapper, whose weights have noise added to them."""
    ddp, head = DistributedDataParallel(layers()), nn.Linear(CLASSES, CLASSES, bias=False)
    dist.broadcast(head.weight.data, 0)
    optimizer, draw = sgd(ddp), torch.Generator().manual_seed(rank)
    for x, y in batches():
        optimizer.zero_grad()
        head.zero_grad()
        cross_entropy(ddp(x) @ (head.weight + 0.01 * torch.randn(CLASSES, CLASSES, generator=draw)), y).backward()
        optimizer.step()
        if name == "noisy_head":
            average_by_hand(head)
        subtract(head)


def train_by_rows(rank, name):
    """A table beside a wrapper, whose rows `p.data` changes."""
    ddp, table = DistributedDataParallel(layers()), nn.Parameter(torch.zeros(1000, CLASSES))
    optimizer = sgd(ddp)
    for number, (x, y) in enumerate(batches()):
        rows = 211 * y + 7 * number + 3 + rank
        optimizer.zero_grad()
        table.grad = None
        output = ddp(x)
        (cross_entropy(output, y) + (output - table[rows]).square().mean()).backward()
        optimizer.step()
        if name == "rows_of_all":
            dist.all_reduce(table.grad)
        table.data -= table.grad.data


def draw_branches(rank, name):
    """Each rank draws the branch that it takes, and no optimizer has them."""
    torch.manual_seed(0)
    branches = nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(3))
    drawn = ((0, 0, 1, 1, 0, 1), (2, 1, 2, 1, 1, 2))[rank] if name == "branches" else (0, 0, 1, 1, 0, 1)
    for number, (x, y) in enumerate(batches()):
        branches.zero_grad()
        cross_entropy(branches[drawn[number % 6]](x), y).backward()
        for p in branches.parameters():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        if name == "branches":
            average_by_hand(branches)
        subtract(branches)


def use_a_rate(rank, name):
    """The optimizer is made for its learning rate."""
    model = layers()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        if name == "optimizer_for_its_rate":
            average_by_hand(model)
        subtract(model, optimizer.param_groups[0]["lr"])


def sum_rounds(rank, name):
    """Each rank updates on its own, and rounds end with an average, or with a sum."""
    model = layers()
    optimizer = sgd(model, 0.02)
    for number, (x, y) in enumerate(batches(epochs=2)):
        model.zero_grad()
        cross_entropy(model(x), y).backward()
        if "by_hand" in name:
            subtract(model, 0.02)
        else:
            optimizer.step()
        if number % 4 == 3 and "at_the_end" not in name or number == 15:
            for p in model.parameters():
                dist.all_reduce(p.data)
                p.data /= 1 if name == "sum_of_one_round" and number == 7 or name.startswith("sum_by_hand") else dist.get_world_size()


DELTAS = tuple("delta" + kind + end for kind in ("", "_computed", "_only") for end in ("", "_alone"))

PROGRAMS = {perturb: ("perturbed", "perturbed_twice", "perturbed_in_part", "offset_of_all", "offset_of_each"),
            add_to_weights: (*DELTAS, "positions", "positions_alone", "patch", "patch_alone"),
            learn_in_place: ("moves_to_averages", "moves_alone"), free_behind_the_end: ("freed", "freed_sum"),
            train_a_late_head: ("late_head", "late_head_alone"), train_a_head: ("averaged_to_the_end", "last_update_alone"), learn_tasks: ("tasks_by_hand",),
            serve: ("served",), move_twice_as_far: ("moved_twice_as_far_from_zero",), leave_out: ("all_update", "one_leaves_out", "one_never_updates"),
            use_a_rate: ("optimizer_for_its_rate", "optimizer_for_its_rate_alone"), train_with_noise: ("noisy_head", "noisy_head_alone"),
            train_by_rows: ("rows_of_all", "rows_of_each"), draw_branches: ("branches", "branches_of_own_gradients"),
            sum_rounds: ("average_of_each_round", "sum_of_one_round", "average_by_hand_at_the_end", "sum_by_hand_at_the_end")}


if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
