"""The random numbers with which the worker processes of loaders begin."""
import functools
import mmap
import os
import struct

import torch

from . import _state
from ._digests import bytes_of
from ._objects import other_generators, whole_hash

WORKERS_MOST = 64
PLACE = struct.Struct("<B3qB")  # Written as a worker begins: how many generators, and their states; and which of them its first batch moved.
board = None  # Memory that this process shares with the workers that it starts next.


def states():
    return [("torch", whole_hash(bytes_of(torch.get_rng_state()))), *((name, state.item()) for name, state in other_generators())]


def make_board():
    """Memory for the workers that start next. Processes that are not forked do not see it."""
    global board
    board = mmap.mmap(-1, WORKERS_MOST * PLACE.size)
    return board


def streams_on(page, workers):
    """{generator: its state in each worker} of those that every worker's first batch moved; None while some have not dealt one."""
    read = [PLACE.unpack_from(page, number * PLACE.size) for number in range(min(workers, WORKERS_MOST))]
    if not all(count and moved & 128 for count, *_, moved in read):
        return None
    names = ("torch", "python", "numpy")[:min(count for count, *_ in read)]
    return {name: [str(row[1 + at]) for row in read] for at, name in enumerate(names) if all(row[4] >> at & 1 for row in read)}


def write(number, began, moved=0):
    PLACE.pack_into(board, number * PLACE.size, len(began), *([state for _, state in began] + [0, 0])[:3], moved)


def watch_fetches(fetcher, number):
    """Writes with what a worker's generators begin, and which of them its first batch moved."""
    began, original = states(), fetcher.fetch
    write(number, began)

    def fetch(possibly_batched_index):
        del fetcher.fetch  # The next one is the class's own.
        try:
            return original(possibly_batched_index)
        finally:
            quietly(lambda: write(number, began, 128 | sum(1 << at for at, pair in enumerate(states()[:len(began)]) if pair != began[at])))
    fetcher.fetch = fetch


def quietly(act):
    try:
        act()
    except Exception:  # It is a worker: nothing of it can be recorded.
        pass


def fetching(original):
    @functools.wraps(original)
    def function(*args, **kwargs):
        fetcher = original(*args, **kwargs)
        info = torch.utils.data.get_worker_info()
        is_own = board is not None and os.getppid() == _state.recorder.history.process  # and not a worker's own worker
        if is_own and info is not None and info.id < WORKERS_MOST:
            quietly(lambda: watch_fetches(fetcher, info.id))
        return fetcher
    return function


def install():
    kinds = torch.utils.data._DatasetKind
    kinds.create_fetcher = staticmethod(fetching(kinds.create_fetcher))
