"""Programs with samplers of their own that know the ranks, batch samplers that deal more than numbers, and what training loops that people
publish do beside. Right ones and ones with a mistake, all recorded.

usage: programs_of_samplers.py FOLDER NAME:WORLD...     each NAME:WORLD is recorded into FOLDER/NAME-WORLD
"""

import math
import sys

from programs_of_averages import sgd
from programs_of_habits import BATCH, layers, rows, runs, update

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, Sampler

from forked_ranks import record_programs


class Augmented(Dataset):
    """Its samples are never twice the same, and nothing but its own code knows how many they are."""

    def __init__(self, samples):
        self.rows, self.samples = rows(samples), samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        if isinstance(index, tuple):
            index = next(int(each) for each in reversed(index) if not isinstance(each, bool))
        x, y = self.rows[index]
        return x + 0.01 * torch.randn(x.shape), y


class Enlarged(Sampler):
    """Deals parts of an order that it draws by its epoch, as DistributedSampler does, of which it is none."""

    def __init__(self, dataset, num_replicas, rank, name):
        self.dataset, self.num_replicas, self.rank, self.name, self.epoch = dataset, num_replicas, rank, name, 0
        self.num_samples = math.ceil(len(dataset) / num_replicas)

    def __len__(self):
        return self.num_samples

    def order(self):
        seed = self.epoch + (100 * self.rank if self.name == "enlarged_of_own_orders" else 0)
        draw = torch.Generator().manual_seed(seed)
        if self.name == "grouped":
            halves = (torch.randperm(31, generator=draw).tolist(), (31 + torch.randperm(30, generator=draw)).tolist())
            return [index for half in halves for index in half + half[:-len(half) % (BATCH * self.num_replicas)]]
        if self.name == "grouped_by_batches":  # The second rank's last batch is the first one's.
            order = torch.randperm(60, generator=draw).tolist()
            return [index for pair in zip(order[:32], order[32:] + order[28:32]) for index in pair]
        order = torch.randperm(len(self.dataset), generator=draw).tolist()
        return order + order[:self.num_samples * self.num_replicas - len(order)]

    def __iter__(self):
        return iter(self.order()[self.rank::self.num_replicas])


class Looped(DistributedSampler):
    """Fills up the last batch of each rank."""

    def __init__(self, dataset, num_replicas, rank, name):
        super().__init__(dataset, num_replicas, rank)
        self.name = name

    def __iter__(self):
        own = list(super().__iter__())
        if self.name == "looped_of_own_orders":
            draw = torch.Generator().manual_seed(self.epoch + self.rank)
            own = torch.randperm(len(self.dataset), generator=draw).tolist()[self.rank::2]
        return iter(own + own[:-len(own) % BATCH])


class Repeated(Enlarged):
    """Deals each sample three times, to ranks side by side."""

    def __init__(self, *args):
        super().__init__(*args)
        self.num_selected_samples = len(self)

    def __iter__(self):
        return iter([index for index in self.order() for _ in range(3)][self.rank::self.num_replicas][:len(self)])


def draw_enlarged(rank, name):
    dataset = Augmented({"enlarged_padded": 61, "grouped": 61, "grouped_by_batches": 60, "enlarged_of_rank_0": 24, "enlarged_small": 24, "looped": 70,
                         "looped_of_own_orders": 22}.get(name, 64))
    kind = Repeated if name == "repeated" else Looped if name.startswith("looped") else Enlarged
    sampler = kind(dataset, 2, 0 if name == "enlarged_of_rank_0" else rank, name)
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    torch.manual_seed(rank)
    for epoch in range(3):
        if name != "enlarged_of_one_epoch":
            sampler.epoch = 10 * epoch
        for x, y in DataLoader(dataset, BATCH, sampler=sampler):
            update(ddp, optimizer, x, y)


class Endless(Sampler):
    def __init__(self, rank, name):
        self.rank, self.name = rank, name

    def __iter__(self):
        draw = torch.Generator().manual_seed(0)
        while True:
            yield from torch.randperm(64, generator=draw)[0 if self.name.endswith("of_rank_0") else self.rank::2]


class Mosaics(BatchSampler):
    """Deals whether to mix a sample with others, and its size, with each number."""

    def __iter__(self):
        for number, batch in enumerate(super().__iter__()):
            yield [(True, 320 + 32 * (number % 3), index) if "sized" in self.sampler.name else (True, index) for index in batch]


def draw_mosaics(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    handed = iter(DataLoader(Augmented(64), batch_sampler=Mosaics(Endless(rank, name), BATCH, False)))
    torch.manual_seed(rank)
    for _ in range(16):
        update(ddp, optimizer, *next(handed))


def clear_gradients(rank, name):
    ddp = DistributedDataParallel(layers())
    optimizer = sgd(ddp)
    for x, y in DataLoader(rows(), BATCH, sampler=DistributedSampler(rows())):
        if name == "cleared_in_two_ways":
            optimizer.zero_grad(set_to_none=rank == 0)
        elif rank == 0:
            optimizer.zero_grad()
        cross_entropy(ddp(x), y).backward()
        optimizer.step()


def count_parameters(rank, name):
    """A model without data says how large the trained one is."""
    with torch.device("meta"):
        counted = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
    ddp = DistributedDataParallel(layers())
    optimizer, sampler = sgd(ddp), DistributedSampler(rows())
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(rows(), BATCH, sampler=sampler):
            update(ddp, optimizer, x, y)
    print(sum(p.numel() for p in counted.parameters()))


def evaluate_each_epoch(rank, name):
    """Losses of steps are averages over the ranks, for the log."""
    ddp, data = DistributedDataParallel(layers()), rows(30, seed=2)
    optimizer, sampler = sgd(ddp), DistributedSampler(rows())
    held_out = DataLoader(data, BATCH, sampler=DistributedSampler(data, shuffle=False))
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(rows(), BATCH, sampler=sampler):
            optimizer.zero_grad()
            loss = cross_entropy(ddp(x), y)
            loss.backward()
            dist.all_reduce(loss.detach())
            optimizer.step()
        with torch.no_grad():
            right = sum(ddp.module(x).argmax(1).eq(y).sum() for x, y in held_out)
        if name == "evaluated":
            dist.all_reduce(right)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(out, x.contiguous())
        return torch.cat(out)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()] * dist.get_world_size()


class CrossEntropyOfParts(torch.autograd.Function):
    """Takes scores whose columns are parts of the classes, one on each rank, and labels counted from the part's first class."""

    @staticmethod
    def forward(ctx, scores, labels):
        largest = scores.max(1, keepdim=True).values
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        chances = (scores - largest).exp()
        total = chances.sum(1, keepdim=True)
        dist.all_reduce(total)
        chances /= total
        own = ((labels >= 0) & (labels < scores.shape[1])).nonzero().flatten()
        picked = torch.zeros(len(labels))
        picked[own] = chances[own, labels[own]]
        dist.all_reduce(picked)
        ctx.save_for_backward(chances, own, labels)
        return -picked.log().mean()

    @staticmethod
    def backward(ctx, gradient):
        chances, own, labels = ctx.saved_tensors
        out = chances.clone()
        out[own, labels[own]] -= 1
        return gradient * out / len(labels), None


class Average(torch.autograd.Function):
    """Averages losses for the log."""

    @staticmethod
    def forward(ctx, loss):
        loss = loss / dist.get_world_size()
        dist.all_reduce(loss)
        return loss

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def divide_classes(rank, name):
    """Each rank has the weights of two of four classes, as in PartialFC."""
    ddp = DistributedDataParallel(layers()[:-1])
    head, projection = torch.nn.Linear(8, 2, bias=False), torch.nn.Linear(8, 8)
    torch.manual_seed(1 + rank)
    if name != "classes_from_one_seed":
        torch.nn.init.normal_(head.weight)
    if name == "classes_behind_projections":
        torch.nn.init.normal_(projection.weight)
    optimizer = torch.optim.SGD([*ddp.parameters(), *head.parameters()], lr=0.1)
    if name == "classes_behind_projections":
        optimizer.add_param_group({"params": list(projection.parameters())})
    for x, y in DataLoader(rows(), BATCH, sampler=DistributedSampler(rows())):
        features, labels = ddp(x), [torch.empty_like(y) for _ in range(2)]
        dist.all_gather(labels, y)
        features = Gather.apply(projection(features) if name == "classes_behind_projections" else features)
        scores, own = head(features), torch.cat(labels) - 2 * rank
        if name.startswith("classes_of_a_rank"):
            loss = cross_entropy(scores[BATCH * rank:BATCH * (rank + 1)], y % 2)
            loss = Average.apply(loss) if name.endswith("logged") else loss
        else:
            loss = CrossEntropyOfParts.apply(scores, own)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 0.01)
        optimizer.step()


PROGRAMS = {draw_enlarged: ("enlarged", "enlarged_small", "enlarged_padded", "grouped", "grouped_by_batches", "repeated", "enlarged_of_rank_0",
                            "enlarged_of_own_orders", "enlarged_of_one_epoch", "looped", "looped_of_own_orders"),
            draw_mosaics: ("mosaics", "sized_mosaics", "mosaics_of_rank_0", "sized_mosaics_of_rank_0"),
            clear_gradients: ("cleared_in_two_ways", "cleared_on_rank_0"), count_parameters: ("counted",),
            evaluate_each_epoch: ("evaluated", "evaluated_in_parts"),
            divide_classes: ("classes", "classes_from_one_seed", "classes_behind_projections", "classes_of_a_rank",
                             "classes_of_a_rank_logged")}

if __name__ == "__main__":
    record_programs(runs(PROGRAMS), sys.argv[1], sys.argv[2:], 10)
