"""The file of one rank: docs/protocol.md, section 5."""
import itertools
import json
import os
import struct
import sys
import threading
import time

COMMIT = int.from_bytes(b"LOCKSTEP", "little")
BEGIN, MOMENT, OBSERVATION, ISSUED, DONE, ENDING, TENSORS, DIGESTS, FACT, SPAN, VALUES = 1, 2, 3, 4, 5, 8, 11, 12, 13, 14, 15
BYTES_MOST = 64 << 20  # Of a file; `judge` reads no larger one.
ENDING_BYTES = 32 << 10  # Kept free for the last record.
WHY_MOST = 4000  # Characters of an exception. A longer one keeps its end, where PyTorch writes what to do.
WAITING_MOST = 1 << 20  # Bytes that wait for a file whose rank is not known yet.
encoded = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


def header_of(path):
    """The header of a history's first record; {} where there is none."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read(struct.unpack("<II8x", file.read(16))[0]))
    except (OSError, ValueError, struct.error):
        return {}


def folder_of_attempt(folder, number, rank, world, agent):
    """The folder of the ranks that torchrun's agent started now, as the attempt of this number or a later one: it counts no restart
    where nodes come or go."""
    for attempt in itertools.count(number):
        here = os.path.join(folder, "restart-%d" % attempt) if attempt else folder
        headers = {name: header_of(os.path.join(here, name)) for name in (os.listdir(here) if os.path.isdir(here) else ())
                   if name.endswith(".history")}
        own = headers.get("rank%d.history" % rank)
        if own is not None and own.get("agent") != agent:
            return here  # of another run
        if own is None and all(each.get("world") == world for each in headers.values()):
            return here


class History:
    """One rank's file: records, each written whole before the next. They wait in memory until `open` names the rank."""

    def __init__(self, folder, **about):
        self.folder, self.about, self.path = folder, about, None
        self.count = self.bytes = 0
        self.waiting, self.waiting_bytes = [], 0
        self.process, self.lock, self.has_ended, self.is_failed = os.getpid(), threading.RLock(), False, False

    def open(self, rank, world):
        """Raises OSError where it cannot write there, and FileExistsError where the file is there."""
        with self.lock:
            self.path = os.path.join(self.folder, "rank%d.history" % rank)
            try:
                os.makedirs(self.folder, mode=0o700, exist_ok=True)
                self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except OSError as error:
                self.has_ended = True
                is_there = os.path.lexists(self.path)
                reason = "is there already; record into a new folder" if is_there else error.strerror
                raise (FileExistsError if is_there else OSError)("lockstep_recorder: %s: %s" % (self.path, reason)) from None
            waiting, self.waiting = self.waiting, []
            self.append(BEGIN, {"protocol": 1, "rank": rank, "world": world, **self.about})
            for record in waiting:
                self.append(*record)

    def append(self, kind, header, payload=b""):
        """Does nothing in a process that was forked from this one, nor after the ending."""
        if os.getpid() != self.process:
            return
        if self.path is None:
            self.waiting_bytes += 100 + len(payload)
            if self.waiting_bytes < WAITING_MOST or kind == TENSORS:
                self.waiting.append((kind, header, payload))
            return
        text = encoded(header).encode("utf-8", "replace")
        body = struct.pack("<IIQ", len(text), kind, len(payload)) + text + payload
        with self.lock:
            if self.has_ended:
                return
            record = body + bytes(-len(body) % 8) + struct.pack("<Q", COMMIT ^ self.count)
            if kind != ENDING and self.bytes + len(record) > BYTES_MOST - ENDING_BYTES:
                return self.end("overflowed", "a history has at most %d bytes" % BYTES_MOST)
            self.count, self.bytes, self.has_ended = self.count + 1, self.bytes + len(record), kind == ENDING
            try:
                while record:
                    record = record[os.write(self.file, record):]
            except OSError as error:
                self.has_ended = True
                print("lockstep_recorder: %s: %s; recording ends" % (self.path, error.strerror), file=sys.stderr)

    def end(self, kind, why=""):
        why = why if len(why) <= WHY_MOST else why[:WHY_MOST // 4] + " ... " + why[-WHY_MOST * 3 // 4:]
        if self.path is not None:
            self.append(ENDING, {"kind": kind, "why": why, "ns": time.monotonic_ns()})


def told(error):
    try:
        return "%s: %s" % (type(error).__name__, error)
    except Exception:  # One of the program's that cannot say what it is.
        return type(error).__name__
