"""Programs whose datasets and batches are of all kinds."""

import collections
import threading

import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, DistributedSampler, IterableDataset, Sampler, Subset, random_split

from training_on_batches import Plain, samples, split, Training
from watched_programs import program, say


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
