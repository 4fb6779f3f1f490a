"""Finds the processes that a test has started, and theirs, by a mark in their environment."""

import contextlib
import os


def marked(mark):
    """The ids of the processes that have `mark` in their environment, which descendants inherit."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as environment:
                if mark.encode() in environment.read():
                    found.append(int(name))
        except OSError:  # It is gone, or not ours.
            continue
    return found


def parent_of(process):
    with open("/proc/%d/stat" % process, encoding="ascii", errors="replace") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[1])


def children(mark, parent):
    found = []
    for process in marked(mark):
        with contextlib.suppress(OSError):  # It may have ended since.
            if parent_of(process) == parent:
                found.append(process)
    return found
