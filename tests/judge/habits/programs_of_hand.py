"""Programs without a wrapper that update, or average, by hand. Right ones and ones with a mistake, all recorded.

usage: programs_of_hand.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import copy
import gc
import sys

from programs_of_averages import sgd
from programs_of_habits import BATCH, CLASSES, WIDTH, batches, layers, rows, runs, update
from programs_of_ways import average_by_hand

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset

from forked_ranks import record_programs


def update_by_hand(rank, name):
    """No optimizer: the program subtracts a part of each gradient."""
    model = layers()
    if name == "subtracts_from_own_weights":
        nn.init.normal_(model[0].weight, std=1 + rank)
    for number, (x, y) in enumerate(dealt := list(batches())):
        model.zero_grad()
        cross_entropy(model(x), y).backward()
        if name not in ("subtracts_own_gradients", "rounds_by_hand") and (name, number + 1) != ("subtracts_own_last_gradients", len(dealt)):
            average_by_hand(model)
        for p in model.parameters() if name != "subtracts_nothing" else ():
            if name == "subtracts_in_data":
                p.data.sub_(0.1 * p.grad.data)
            else:
                with torch.no_grad():
                    p -= 0.1 * p.grad
        for p in model.parameters() if name == "rounds_by_hand" and number % 2 else ():
            dist.all_reduce(p.data)
            p.data /= dist.get_world_size()
    dist.destroy_process_group()


def take_branches(rank, name):
    """Ranks reach the layers of a model in other orders, and none has a name for what the program updates itself."""
    model = nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(2))
    for number, (x, y) in enumerate(batches()):
        model.zero_grad(set_to_none=False)
        cross_entropy(model[(number + rank) % 2](x), y).backward()
        for p in model.parameters():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        average_by_hand(model)
        for p in model.parameters():
            p.data -= 0.1 * p.grad


def update_plain_tensors(rank, name):
    weight = torch.zeros(WIDTH, requires_grad=True)
    for x, y in batches():
        mse_loss(x @ weight, y.float()).backward()
        with torch.no_grad():
            dist.all_reduce(weight.grad)
            weight -= 0.05 * weight.grad
            weight.grad.zero_()


def fool_by_hand(rank, name):
    """The program moves inputs, which are no parameters, before the first update of its optimizer."""
    model = layers()
    optimizer = sgd(model)
    for x, y in batches():
        moved = torch.zeros_like(x, requires_grad=True)
        for _ in range(2):
            cross_entropy(model(x + moved), y).backward()
            moved.data.add_(0.01 * moved.grad.sign())
        update(model, optimizer, x + moved.detach(), y, lambda: average_by_hand(model))


def average_at_the_end(rank, name, ends=True):
    """Each rank trains alone, and the models are averaged once."""
    model, world = layers(), dist.get_world_size()
    optimizer = sgd(model)
    for x, y in batches():
        update(model, optimizer, x, y)
    if name == "vector_at_the_end":
        flat = nn.utils.parameters_to_vector(model.parameters()).detach()
        dist.all_reduce(flat)
        nn.utils.vector_to_parameters(flat / world, model.parameters())
    for number, p in enumerate(model.parameters() if name != "vector_at_the_end" else ()):
        if name != "parts_at_the_end" or number:
            dist.all_reduce(p.data)
            p.data /= 1 if name == "sum_at_the_end" else world + (rank if name == "unlike_at_the_end" else 0)
    if ends:
        dist.destroy_process_group()


def average_now_and_then(rank, name):
    """Local SGD."""
    model, world = layers(), dist.get_world_size()
    optimizer = sgd(model)
    for number, (x, y) in enumerate(batches()):
        update(model, optimizer, x, y)
        for p in model.parameters() if number % 3 == 2 else ():
            dist.all_reduce(p.data)
            p.data /= {"summed": 1, "divided_twice": world * world, "summed_later": world if number == 2 else 1}.get(name, world)
    for p in model.parameters() if name == "kept_by_rank_zero" else ():  # The last round; then rank 0 rounds what it exports.
        dist.all_reduce(p.data)
        p.data /= world
        p.data = p.data.half().float() if rank == 0 else p.data


def average_in_groups(rank, name):
    """Pairs average often, and all ranks more seldom."""
    model = layers()
    optimizer = sgd(model)
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    for number, (x, y) in enumerate(batches(epochs=4)):
        update(model, optimizer, x, y)
        is_of_all = number % 4 == 3 and name != "pairs_alone" and (name != "pairs_that_part" or number < 8)
        for part, p in enumerate(model.parameters() if number % 2 else ()):
            if is_of_all or name != "pairs_in_part" or part or rank < 2:
                dist.all_reduce(p.data, group=None if is_of_all else pairs[rank // 2])
                p.data /= 4 if is_of_all else 2


def take_part_in_turns(rank, name):
    """Federated averaging with two of four clients in a round."""
    model, own, world = layers(), Subset(rows(), range(rank, 64, dist.get_world_size())), dist.get_world_size()
    for number in range(6):
        chosen = {(number + each) % world for each in range(2)} if name != "lazy_rank" else {0, 1, 2} | ({3} if number < 5 else set())
        optimizer = sgd(model, 0.1 / (1 + number))
        for x, y in DataLoader(own, BATCH, shuffle=True) if rank in chosen else ():
            update(model, optimizer, x, y)
        for p in model.parameters():
            p.data *= 1 / len(chosen) if rank in chosen else 0
            dist.all_reduce(p.data)


def update_in_turns(rank, name):
    """The gradients are averages, and each iteration one rank alone takes its step."""
    model = layers()
    optimizer = sgd(model)
    for number, (x, y) in enumerate(batches(epochs=3)):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        average_by_hand(model)
        if number % dist.get_world_size() == rank:
            optimizer.step()


def cut_windows(rank, name):
    """Windows of one stream of whole numbers, in which zeros are values: what begins later is another sample."""
    ddp = DistributedDataParallel(nn.Sequential(nn.Embedding(3, WIDTH), nn.AdaptiveAvgPool2d((1, WIDTH)), nn.Flatten(), nn.Linear(WIDTH, CLASSES)))
    optimizer, stream = sgd(ddp), torch.tensor([0, 0, 0, 1, 2, 1, 0, 0] * 32)
    windows = stream.unfold(0, 6, 1)[rank::2][:96]
    for x in windows.split(BATCH):
        update(ddp, optimizer, x, x.sum(1) % CLASSES)


def drop_by_hand(rank, name):
    net = layers()
    model = nn.Sequential(net, nn.Dropout(0.5), nn.Linear(CLASSES, CLASSES))
    optimizer = sgd(model)
    torch.manual_seed(rank if name == "drops_by_hand" else 0)
    for x, y in batches():
        update(model, optimizer, x, y, lambda: average_by_hand(model))


def follow_on_rank_zero(rank, name):
    """A teacher that learns from the student, on rank 0 alone."""
    net = layers()
    teacher, ddp = copy.deepcopy(net).requires_grad_(False), DistributedDataParallel(net)
    optimizer = sgd(ddp)
    for x, y in batches():
        optimizer.zero_grad()
        output = ddp(x)
        (cross_entropy(output, y) + mse_loss(output, teacher(x))).backward()
        optimizer.step()
        for old, new in zip(teacher.parameters(), net.parameters()) if name == "teacher_of_all" or rank == 0 else ():
            old.data.lerp_(new.data, 0.1)


def train_a_head(rank, name):
    """An optimizer updates the body, in a wrapper or not, and the program a head, which neither has."""
    body, head = layers(), nn.Linear(CLASSES, CLASSES)
    model = DistributedDataParallel(body) if "wrapped" in name else body
    optimizer = sgd(body)
    for x, y in batches():
        head.zero_grad()

        def average():
            for each in (head,) * ("alone" not in name) + (body,) * ("wrapped" not in name):
                average_by_hand(each)
        update(nn.Sequential(model, head), optimizer, x, y, average)
        with torch.no_grad():
            for p in head.parameters():
                p -= 0.1 * p.grad


def learn_tasks(rank, name):
    """First-order MAML: a copy learns each task by hand, in steps of its own, and gives the model the gradients that it ends with."""
    model = layers()
    optimizer, copied = sgd(model), copy.deepcopy(model)
    for number, (x, y) in enumerate(batches(epochs=6)):
        if name == "tasks_of_one_copy":
            copied.load_state_dict(model.state_dict())
        else:
            copied = copy.deepcopy(model)
        learner = sgd(copied) if name == "tasks_with_optimizers" else None
        for _ in range(3):
            copied.zero_grad()
            cross_entropy(copied(x), y).backward()
            if learner:
                learner.step()
            for p in copied.parameters() if not learner else ():
                p.data -= 0.1 * p.grad
        for p, own in zip(model.parameters(), copied.parameters()):
            p.grad = own.grad.clone()
        if name != "tasks_alone":
            average_by_hand(model)
        optimizer.step()


def follow_in_the_graph(rank, name):
    """The loss sends gradients into a teacher, which the program moves itself."""
    net = layers()
    teacher, ddp = copy.deepcopy(net), DistributedDataParallel(net)
    optimizer = sgd(ddp)
    for x, y in batches():
        optimizer.zero_grad()
        output = ddp(x)
        (cross_entropy(output, y) + mse_loss(output, teacher(x))).backward()
        optimizer.step()
        for old, new in zip(teacher.parameters(), net.parameters()):
            old.data.lerp_(new.data, 0.1 * (1 + rank) if "own" in name else 0.1)


def train_two_by_hand(rank, name):
    """A second model, which only later backwards reach, and no optimizer."""
    first, second = layers(), nn.Linear(CLASSES, CLASSES)
    for x, y in batches():
        for model, reached in ((first, first), (nn.Sequential(first, second), second)):
            model.zero_grad()
            cross_entropy(model(x), y).backward()
            if name != "second_alone" or reached is first:
                average_by_hand(reached)
            for p in reached.parameters():
                p.data -= 0.1 * p.grad


def update_outside(rank, name):
    """DiLoCo: each rank trains on its own, and an outer optimizer takes the average of how far the ranks came."""
    model = layers()
    outside = [p.detach().clone().requires_grad_() for p in model.parameters()]
    optimizer, outer = sgd(model), torch.optim.SGD(outside, lr=0.7, momentum=0.9)
    for number, (x, y) in enumerate(batches()):
        update(model, optimizer, x, y)
        for each, p in zip(outside, model.parameters()) if number % 3 == 2 else ():
            each.grad = each.data - p.data
            dist.all_reduce(each.grad)
            each.grad /= dist.get_world_size()
        if number % 3 == 2:
            outer.step()
            for each, p in zip(outside, model.parameters()):
                p.data.copy_(each.data)


def average_in_a_function(rank, name):
    """The model is gone once it is averaged."""
    def train():
        average_at_the_end(rank, name.replace("_in_a_function", ""), ends=False)
    train()
    gc.collect()


PROGRAMS = {train_a_head: ("head_by_hand", "head_by_hand_alone", "wrapped_body", "wrapped_body_and_head_alone"),
            learn_tasks: ("tasks", "tasks_of_one_copy", "tasks_with_optimizers", "tasks_alone"),
            follow_in_the_graph: ("teacher_in_the_graph", "own_teacher_in_the_graph"),
            train_two_by_hand: ("two_by_hand", "second_alone"),
            average_in_a_function: ("at_the_end_in_a_function", "sum_at_the_end_in_a_function", "parts_at_the_end_in_a_function"),
            update_outside: ("updated_outside",),
            update_by_hand: ("subtracts", "subtracts_in_data", "subtracts_own_gradients", "subtracts_from_own_weights", "subtracts_nothing",
                             "subtracts_own_last_gradients", "rounds_by_hand"),
            take_branches: ("branches_by_hand",), update_in_turns: ("steps_in_turns",), cut_windows: ("shifted_windows",),
            update_plain_tensors: ("plain_tensors",), fool_by_hand: ("fooled_by_hand",),
            average_at_the_end: ("at_the_end", "vector_at_the_end", "sum_at_the_end", "parts_at_the_end", "unlike_at_the_end"),
            average_now_and_then: ("now_and_then", "summed", "summed_later", "divided_twice", "kept_by_rank_zero"),
            average_in_groups: ("pairs", "pairs_alone", "pairs_in_part", "pairs_that_part"), take_part_in_turns: ("in_turns", "lazy_rank"),
            drop_by_hand: ("drops_by_hand", "drops_alike_by_hand"),
            follow_on_rank_zero: ("teacher_of_all", "teacher_of_rank_zero_alone")}

if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
