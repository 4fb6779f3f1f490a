#!/usr/bin/env python3
"""How the time and the memory of `judge` and `trace` grow with a history, for records of each kind.

usage: reading.py [--build BUILD] [--megabytes N] [KIND ...]

For each kind there are histories of one rank with about N, 2 N and 4 N megabytes, as a stranger might make them. The lines say the seconds of
the processor and the most memory for the first, without what a history of no records takes, and how many times as much the others
take: 2 and 4 where it grows as the history does. Beside them stands Python, which reads the bytes record by record and keeps nothing.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMIT = 0x50455453_4B434F4C
BEGIN, MOMENT, DRAWN, ISSUED, DONE, LAYOUT, TENSORS, DIGESTS, FACT, SPAN = 1, 2, 3, 4, 5, 10, 11, 12, 13, 14


def issued(op, sequence, elements=3):
    return (ISSUED, {"op": op, "group": "world", "dtype": "float32", "sequence": sequence, "elements": elements, "root": -1, "ns": 2 * sequence})


def done(sequence, ns=0):
    return (DONE, {"group": "world", "sequence": sequence, "ns": ns})


def done_in_order(count):
    for number in range(count):
        yield issued("allreduce", number)
        yield done(number, 2 * number + 1)


def all_in_flight(count):
    yield from (issued("allreduce", number) for number in range(count))
    yield from (done(number, 2 * count + number) for number in range(count))


def of_other_numbers(count):
    for number in range(count):
        yield issued("allreduce", number)
        yield done(count + number)


def of_no_bucket(count):
    """A layout of many buckets, and collectives as large as none of them."""
    yield (LAYOUT, {"buckets": [{"elements": 2 * bucket, "parameters": ["w%d" % bucket]} for bucket in range(count // 8)]})
    yield from (issued("allreduce", number, 2 * number + 1) for number in range(count))


def many_operations(count):
    yield from (issued("op %d" % number, number) for number in range(count))


def empty_lists(count):
    for number in range(1 + count // 200):
        yield (FACT, {"name": "x %d" % number, "values": {"x": [number] + [[]] * 5000}})


def optimizers(count):
    """The facts of a training whose learning rate changes."""
    owned = [["model 0", "layer.%d.weight" % number] for number in range(200)]
    for step in range(1 + count // 60):
        yield (MOMENT, {"step": step, "phase": "update"})
        yield (FACT, {"name": "optimizer 0", "values": {"kind": "SGD", "groups": [{"lr": 1 / (1 + step)}], "owned": owned, "foreign": 0}})


def updates(count):
    yield (TENSORS, {"list": 0, "of": "model 0", "role": "parameters", "tensors": [["w%d" % number, "float32", [3]] for number in range(50)]})
    for step in range(1 + count // 10):
        yield (MOMENT, {"step": step, "phase": "update"})
        yield (DIGESTS, {"list": 0}, struct.pack("<Qd", step, 1.0) * 50)
        yield (SPAN, {"name": "update", "from": 2 * step, "ns": 2 * step + 1})


def drawn_indices(count):
    yield (FACT, {"name": "loader 0", "values": {"epoch": 0, "length": 4 * count, "batch_size": 4}})
    for number in range(count):
        yield (DRAWN, {"name": "loader 0", "dtype": "int64", "shape": [4]}, struct.pack("<4q", *range(4 * number, 4 * number + 4)))


def joins(count):
    for number in range(count // 2):
        yield (MOMENT, {"step": number, "phase": "join"})
        yield (FACT, {"name": "join %d" % number, "values": {}})
        yield (FACT, {"name": "join %d ended" % number, "values": {}})


KINDS = (done_in_order, all_in_flight, of_other_numbers, of_no_bucket, many_operations, empty_lists, optimizers, updates, drawn_indices, joins)
COUNT_OF_A_MEGABYTE = 5000


def write(folder, records):
    os.mkdir(folder)
    path, size = os.path.join(folder, "rank0.history"), 0
    with open(path, "wb") as file:
        for number, (kind, header, *payload) in enumerate([(BEGIN, {"protocol": 1, "rank": 0, "world": 1}), *records]):
            text, payload = json.dumps(header, separators=(",", ":")).encode(), payload[0] if payload else b""
            body = struct.pack("<IIQ", len(text), kind, len(payload)) + text + payload
            body += bytes(-len(body) % 8) + struct.pack("<Q", COMMIT ^ number)
            size += file.write(body)
    return size


# By a process of its own, since the memory of children is that of the largest so far.
MEASURED = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=-3, stderr=-3)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3)"""
READS = """import json, struct, sys
with open(sys.argv[1], "rb") as file:
    while start := file.read(16):
        header, kind, payload = struct.unpack("<IIQ", start)
        json.loads(file.read(header))
        file.read(-(header + payload) % 8 + payload + 8)"""


def measured(command):
    """Seconds and megabytes."""
    said = subprocess.run([sys.executable, "-c", MEASURED, *command], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [float(word) for word in said.split()]


def ratios(name, row, none):
    seconds, memory = ([max(each[of] - none[of], 0.01) for each in row] for of in (0, 1))
    return "  %-8s %6.2f s, x %.1f %.1f   %6.0f MB, x %.1f %.1f" % (
        name, seconds[0], seconds[1] / seconds[0], seconds[2] / seconds[0], memory[0], memory[1] / memory[0], memory[2] / memory[0])


def main(build, megabytes, names):
    lockstep = os.path.join(build, "cli", "lockstep")
    if not os.path.exists(lockstep):
        sys.exit("reading.py: there is no %s: ninja -C %s lockstep makes it" % (lockstep, build))
    def commands(run):
        return {"judge": [lockstep, "judge", run, "-q"], "trace": [lockstep, "trace", run, "--out", run + ".json"],
                "Python": [sys.executable, "-c", READS, os.path.join(run, "rank0.history")]}

    with tempfile.TemporaryDirectory(prefix="lockstep bench ") as folder:
        empty = os.path.join(folder, "empty")
        write(empty, [])
        none = {name: min(measured(command) for _ in range(3)) for name, command in commands(empty).items()}
        for kind in KINDS:
            if names and kind.__name__ not in names:
                continue
            sizes, rows = [], {name: [] for name in none}
            for times in (1, 2, 4):
                run = os.path.join(folder, "%s %d" % (kind.__name__, times))
                sizes.append(write(run, kind(int(megabytes * COUNT_OF_A_MEGABYTE * times))) / 1e6)
                for name, command in commands(run).items():
                    rows[name].append(measured(command))
            print("%s: %s" % (kind.__name__.replace("_", " "), ", ".join("%.1f MB" % size for size in sizes)))
            for name, row in rows.items():
                print(ratios(name, row, none[name]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(kind.__name__ for kind in KINDS))
    given = parser.parse_args()
    main(given.build, given.megabytes, given.kinds)
