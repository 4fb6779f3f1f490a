"""Programs whose loaders, samplers and datasets are of all kinds."""

import collections
import itertools
import threading

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import (BatchSampler, ConcatDataset, DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler, Sampler,
                              Subset, TensorDataset, WeightedRandomSampler, random_split)

from watched_programs import WORLD, program, say


def samples(count=32):
    draw = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(count, 4, generator=draw), torch.randn(count, 1, generator=draw))


class Training:
    """A wrapped model that trains on batches."""

    def __init__(self):
        self.model = DistributedDataParallel(nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def step(self, x, y):
        self.optimizer.zero_grad()
        mse_loss(self.model(x), y).backward()
        self.optimizer.step()

    def over(self, *loaders):
        for loader in loaders:
            for x, y in loader:
                self.step(x, y)
        say(self.model)
        return self


class Plain(Dataset):
    """A dataset of somebody, of which nothing is known."""

    def __init__(self, count=32):
        self.data, self.reads, self.lengths = samples(count), 0, 0

    def __len__(self):
        self.lengths += 1
        return len(self.data)

    def __getitem__(self, index):
        self.reads += 1
        return self.data[index]


def split(data, **options):
    return DataLoader(data, batch_size=4, sampler=DistributedSampler(data), **options)


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


@program
def keys_that_are_texts(rank):
    class ByName(Dataset):
        def __getitem__(self, name):
            return torch.full((4,), float(len(name))), torch.ones(1)
    Training().over(DataLoader(ByName(), batch_size=2, sampler=["a", "bb", "ccc", "dddd"]))


@program
def dataset_with_its_own_generator(rank):
    class Noisy(Plain):
        draw = torch.Generator().manual_seed(3)

        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return x + torch.randn(4, generator=self.draw), y
    Training().over(DataLoader(Noisy(), batch_size=4, shuffle=True), DataLoader(Noisy(), batch_size=4, sampler=range(rank, 32, 2)))


@program
def dataset_that_counts_its_reads(rank):
    for loader in (split(Plain()), DataLoader(Plain(), batch_size=4, sampler=list(range(16))), split(Subset(Plain(), range(0, 32, 2)))):
        Training().over(loader)
        data = loader.dataset
        say(data.reads if isinstance(data, Plain) else data.dataset.reads)


@program
def dataset_without_a_length(rank):
    class Lengthless(Plain):
        def __len__(self):
            raise NotImplementedError("this dataset has no length")
    Training().over(DataLoader(Lengthless(), batch_size=4, sampler=range(rank, 32, 2)))


@program
def dataset_that_throws_at_a_sample(rank):
    class Broken(Plain):
        def __getitem__(self, index):
            if index == 9:
                raise ValueError("sample 9 is broken")
            return super().__getitem__(index)
    for workers in (0, 1):
        training, batches = Training(), iter(DataLoader(Broken(), batch_size=4, sampler=range(32), num_workers=workers))
        while True:
            try:
                training.step(*next(batches))
            except ValueError as error:
                say(str(error).strip().splitlines()[-1])
            except StopIteration:
                break
        say(training.model)


class Unhashable(Plain):
    def __eq__(self, other):
        raise AssertionError("nobody may compare a dataset")

    __hash__ = None


@program
def unhashable_things(rank):
    class Loader(DataLoader):
        __hash__ = None

        def __eq__(self, other):
            raise AssertionError("nobody may compare a loader")

    class Slots(Sampler):
        __slots__ = ("count",)

        def __init__(self):
            self.count = 8

        def __iter__(self):
            return iter(range(self.count))

        def __len__(self):
            return self.count
    Training().over(Loader(Unhashable(), batch_size=4, sampler=Slots()), DataLoader(Unhashable(), batch_size=4, sampler=[1, 2, 3]))


@program
def splits_and_concatenations(rank):
    parts = random_split(samples(), [24, 8])
    Training().over(split(parts[0]), split(ConcatDataset([parts[1], samples(8)])), split([*samples(8)]))


@program
def batches_of_all_forms(rank):
    Pair = collections.namedtuple("Pair", "x y")

    class Odd:
        def __getattr__(self, name):
            raise AssertionError("nobody may ask a batch for " + name)

    def collate(items):
        x, y = torch.stack([each[0] for each in items]), torch.stack([each[1] for each in items])
        return {"pair": Pair(x, [y]), "text": "a", 3: Odd(), "empty": []}
    training, data = Training(), samples()
    for batch in DataLoader(data, batch_size=4, sampler=DistributedSampler(data), collate_fn=collate):
        training.step(batch["pair"].x, batch["pair"].y[0])
    say(training.model)


@program
def loader_in_a_dataset(rank):
    class Outer(IterableDataset):
        def __iter__(self):
            for x, y in DataLoader(samples(), batch_size=8):
                yield from zip(x, y)
    Training().over(DataLoader(Outer(), batch_size=4))


@program
def loader_in_a_thread(rank):
    training, batches = Training(), []
    thread = threading.Thread(target=lambda: batches.extend(split(samples())))
    thread.start()
    training.over(split(samples(16)))
    thread.join()
    training.over(batches)
