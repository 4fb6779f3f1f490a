"""The data that the ranks of a drawn loop train on and evaluate."""

import torch
import torch.distributed as dist
from torch.utils.data import (BatchSampler, ConcatDataset, DataLoader, DistributedSampler, IterableDataset, Sampler, Subset, TensorDataset,
                              random_split)

CLASSES, WIDTH = 3, 6


class Stream(IterableDataset):
    """Samples without a length, dealt to ranks and their workers by their numbers; one process has the samples of all ranks."""
    def __init__(self, tensors, ranks, world):
        self.tensors, self.ranks, self.world = tensors, ranks, world

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        own, workers = (0, 1) if info is None else (info.id, info.num_workers)
        for number in range(len(self.tensors)):
            if number % self.world in self.ranks and number // self.world % workers == own:
                yield self.tensors[number]


class OwnSampler(Sampler):
    """A sampler of the program's own that knows the ranks."""
    def __init__(self, length, world, rank, shuffle, seed):
        self.length, self.world, self.rank, self.shuffle, self.seed, self.epoch = length, world, rank, shuffle, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.length // self.world

    def __iter__(self):
        draw = torch.Generator().manual_seed(1000 * self.seed + self.epoch)
        order = torch.randperm(self.length, generator=draw).tolist() if self.shuffle else list(range(self.length))
        return iter(order[self.rank:len(self) * self.world:self.world])


def samples_of(loop, rank, mistake):
    count = loop.world * loop.batch * loop.batches + {"even": 0, "padded": -1, "dropped": 1, "short": -loop.world}[loop.tail]
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(2 * count, WIDTH, generator=generator)
    whole = TensorDataset(inputs, torch.randint(0, CLASSES, (2 * count,), generator=generator))
    if loop.dataset == "split":
        seed = rank if mistake == "split_by_own_seed" else 9
        return random_split(whole, [count, count], torch.Generator().manual_seed(seed))[0]
    if loop.dataset == "concatenated":
        return ConcatDataset([Subset(whole, range(count // 2)), Subset(whole, range(count // 2, count))])
    return Subset(whole, range(count)) if loop.dataset == "subset" else TensorDataset(*whole[:count])


class Feed:
    """The data of a rank's training, epoch by epoch."""
    def __init__(self, loop, data, rank, mistake):
        self.loop, self.data, self.rank, self.mistake = loop, data, rank, mistake
        self.sampler = self.loader = None

    def make(self):
        loop, world = self.loop, self.loop.world
        rank = 0 if self.mistake in ("rank_zero_for_all", "one_stream") else self.rank
        workers = {"num_workers": loop.workers, "persistent_workers": loop.persistent and loop.workers > 0}
        if loop.fed == "stream":
            return DataLoader(Stream(self.data, [rank] if world > 1 else range(loop.ranks), loop.ranks), loop.batch, **workers)
        if self.mistake in ("sampler_forgotten", "shuffled_by_all"):
            return DataLoader(self.data, loop.batch, shuffle=self.mistake == "shuffled_by_all", **workers)
        seed = self.rank if self.mistake == "sampler_seeds_differ" else 11 if self.mistake == "other_seed" else 0
        if loop.fed == "own_sampler":
            self.sampler = OwnSampler(len(self.data), world, rank, loop.shuffle, seed)
        else:
            shuffle = loop.shuffle and self.mistake != "tail_never_drawn"
            self.sampler = DistributedSampler(self.data, world, rank, shuffle, seed, loop.tail == "dropped")
        if loop.fed == "batch_sampler":
            return DataLoader(self.data, batch_sampler=BatchSampler(self.sampler, loop.batch, False), **workers)
        return DataLoader(self.data, loop.batch, sampler=self.sampler, **workers)

    def epoch(self, number):
        if self.loop.fed == "by_hand":
            rank = 0 if self.mistake == "one_stream" else self.rank
            order = torch.randperm(len(self.data), generator=torch.Generator().manual_seed(number)).tolist()[rank::self.loop.world]
            for begin in range(0, len(order), self.loop.batch):
                rows = [self.data[each] for each in order[begin:begin + self.loop.batch]]
                yield torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])
            return
        if self.loader is None or self.loop.made_anew:
            self.loader = self.make()
        if self.sampler is not None and self.mistake != "epoch_forgotten":
            self.sampler.set_epoch(number)
        yield from self.loader


def evaluation_loader(loop, data, rank):
    odd = Subset(data, range(len(data) - 1))
    if loop.evaluation in ("padded_alone", "gathered"):
        return DataLoader(odd, loop.batch, sampler=DistributedSampler(odd, loop.world, rank, shuffle=False))
    if loop.evaluation == "counted":
        return DataLoader(Subset(data, range(rank, len(data), loop.world)), loop.batch)
    return DataLoader(data, loop.batch)


def evaluate(loop, module, forward, data, rank, mistake):
    if loop.evaluation == "none" or (loop.evaluation == "whole_on_rank_zero" and rank > 0):
        return
    forward = forward if loop.evaluation == "through_ddp" else module
    module.eval()
    right, hits = torch.zeros(2), []
    with torch.no_grad():
        for x, y in evaluation_loader(loop, data, rank):
            hits.append(forward(x.to(next(module.parameters()).dtype)).argmax(1) == y)
            right += torch.tensor([hits[-1].sum(), len(y)])
    if loop.evaluation == "counted" or mistake == "padded_and_summed":
        dist.all_reduce(right)
    if loop.evaluation == "gathered":  # and what the sampler repeated is cut off
        parts = [None] * loop.world
        dist.all_gather_object(parts, torch.cat(hits))
        torch.stack(parts, 1).flatten()[:len(data) - 1].double().mean()
    module.train()
