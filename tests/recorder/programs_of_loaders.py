"""Programs whose loaders and samplers are of all kinds."""

import itertools

import numpy
import torch
import torch.distributed as dist
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, RandomSampler, Sampler, WeightedRandomSampler

from training_on_batches import samples, split, Training
from watched_programs import WORLD, program, say


@program
def workers(rank):
    Training().over(split(samples(), num_workers=2), split(samples(), num_workers=1))


@program
def persistent_workers_and_prefetch(rank):
    loader = split(samples(), num_workers=2, persistent_workers=True, prefetch_factor=3)
    training = Training()
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        training.over(loader)


@program
def several_loaders_alive(rank):
    loaders = [split(samples(count), num_workers=1) for count in (16, 24)]
    Training().over(*loaders, *loaders)


@program
def loaders_made_anew(rank):
    training = Training()
    for _ in range(3):
        training.over(split(samples()))


@program
def loaders_drawn_together(rank):
    training = Training()
    for (x, y), (z, w) in zip(split(samples()), split(samples(16), num_workers=1)):
        training.step(torch.cat([x, z]), torch.cat([y, w]))
    say(training.model)


@program
def loop_that_is_left_early(rank):
    training, loader = Training(), split(samples(), num_workers=2)
    for _ in range(2):
        training.over(itertools.islice(loader, 2))


class Stream(IterableDataset):
    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        draw = torch.Generator().manual_seed(self.rank + 10 * (worker.id if worker else 0))
        for _ in range(10):
            x = torch.randn(4, generator=draw)
            yield x, x.sum().view(1)


class StreamWithLength(Stream):
    asked = 0

    def __len__(self):
        StreamWithLength.asked += 1
        return 4  # Less than there are, of which a loader warns once somebody asked.


@program
def stream(rank):
    Training().over(DataLoader(Stream(rank), batch_size=4))


@program
def stream_of_workers(rank):
    Training().over(DataLoader(Stream(rank), batch_size=4, num_workers=2))


@program
def stream_of_single_samples(rank):
    training = Training()
    for x, y in DataLoader(Stream(rank), batch_size=None):
        training.step(x.view(1, 4), y.view(1, 1))
    say(training.model)


@program
def stream_whose_length_nobody_asks(rank):
    Training().over(DataLoader(StreamWithLength(rank), batch_size=4))
    say(StreamWithLength.asked)


class Endless(Sampler):
    def __init__(self, rank):
        self.rank, self.draw = rank, torch.Generator().manual_seed(0)

    def __iter__(self):
        while True:
            yield from torch.randperm(32, generator=self.draw).tolist()[self.rank::WORLD]


@program
def endless_sampler(rank):
    Training().over(itertools.islice(DataLoader(samples(), batch_size=4, sampler=Endless(rank)), 9))


@program
def endless_sampler_of_workers(rank):
    loader = DataLoader(samples(), batch_size=4, sampler=Endless(rank), num_workers=1)
    Training().over(itertools.islice(loader, 5), itertools.islice(loader, 4))


@program
def batches_of_its_own(rank):
    batches = [list(range(begin + rank, begin + 8, WORLD)) for begin in range(0, 32, 8)]
    Training().over(DataLoader(samples(), batch_sampler=batches))


class BatchesWithoutLength:
    """Neither a length nor a truth."""

    def __iter__(self):
        for begin in range(0, 32, 8):
            yield range(begin, begin + 4)

    def __bool__(self):
        raise AssertionError("nobody may ask whether a sampler is true")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AssertionError("nobody may ask a sampler for " + name)


@program
def batches_without_length_or_truth(rank):
    Training().over(DataLoader(samples(), batch_sampler=BatchesWithoutLength()))


@program
def batches_as_generators(rank):
    Training().over(DataLoader(samples(), batch_sampler=[(index for index in range(4)), (index for index in range(4, 8))]))


@program
def wrapped_samplers(rank):
    data = samples()
    inner = BatchSampler(DistributedSampler(data), 4, True)
    Training().over(DataLoader(data, batch_sampler=[batch for batch in inner]), DataLoader(data, batch_sampler=inner))


@program
def weighted_sampler(rank):
    Training().over(DataLoader(samples(), batch_size=4, sampler=WeightedRandomSampler(torch.ones(32), 16)))


@program
def sampler_with_replacement(rank):
    data = samples()
    Training().over(DataLoader(data, batch_size=4, sampler=RandomSampler(data, replacement=True, num_samples=12)),
                    DataLoader(data, batch_size=4, shuffle=True))


class Ordered(Sampler):
    """As timm's OrderedDistributedSampler: it knows the ranks, and neither a seed nor an epoch."""

    def __init__(self, data):
        self.dataset, self.num_replicas, self.rank = data, dist.get_world_size(), dist.get_rank()
        self.num_samples = self.total_size = len(data) // self.num_replicas

    def __iter__(self):
        return iter(list(range(len(self.dataset)))[self.rank::self.num_replicas])

    def __len__(self):
        return self.num_samples


@program
def ordered_distributed_sampler(rank):
    data = samples()
    Training().over(DataLoader(data, batch_size=4, sampler=Ordered(data)))


@program
def indices_of_numpy(rank):
    order = numpy.random.permutation(32)
    Training().over(DataLoader(samples(), batch_size=4, sampler=order[rank::2]),
                    DataLoader(samples(), batch_sampler=list(order.reshape(8, 4))),
                    DataLoader(samples(), batch_size=4, sampler=list(torch.randperm(32))))


@program
def samples_one_by_one(rank):
    training, data = Training(), samples(8)
    for x, y in DataLoader(data, batch_size=None, sampler=DistributedSampler(data)):
        training.step(x.view(1, 4), y.view(1, 1))
    say(training.model)


@program
def sampler_without_a_loader(rank):
    training, data = Training(), samples()
    sampler = DistributedSampler(data)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for index in sampler:
            training.step(*(each.view(1, -1) for each in data[index]))
    say(training.model)
