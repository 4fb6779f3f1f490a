"""The files of a Lockstep tree, as the rules of tidy.py look at them."""

import os
import re
from collections import namedtuple

Problem = namedtuple("Problem", "path line sentence")
Include = namedtuple("Include", "line name target")  # target: a path in this tree, or None

HEADERS = (".h", ".hpp", ".cuh")
SOURCES = (".cpp", ".cc", ".cu")
NOT_OURS = {".git", ".venv", ".venv-peer", ".venv-pages", ".venv-docs", "build", ".lockstep", "__pycache__", ".cache"}

# Text that the compiler does not read as code: comments, strings and characters. A quote between two
# digits separates thousands.
NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/
      |\bR"(?P<end>[^()\s\\]*)\(.*?\)(?P=end)"
      |"(?:\\.|[^"\\\n])*"
      |(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'""",
    re.DOTALL | re.VERBOSE)
# "lockstep/NAME.h" is one of these, where a program includes what is installed.
ROOTS_OF_INSTALLED = ("train", "recorder/cpp", "cli")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


class Tree:
    """Every text file under a root, read once. Paths are relative, with slashes, and sorted."""

    def __init__(self, root):
        self.root = root
        self.text = {}
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if name not in NOT_OURS)
            for name in sorted(names):
                self._read(os.path.join(folder, name))
        self.paths = sorted(self.text)
        self.cpp = [path for path in self.paths if path.endswith(HEADERS + SOURCES)]
        self.headers = [path for path in self.cpp if path.endswith(HEADERS)]
        self.sources = [path for path in self.cpp if path.endswith(SOURCES)]

    def _read(self, place):
        try:
            with open(place, encoding="utf-8", newline="") as file:
                text = file.read()
        except (UnicodeDecodeError, OSError):
            return  # A picture, a dangling link.
        if "\0" not in text:
            self.text[os.path.relpath(place, self.root).replace(os.sep, "/")] = text

    def code(self, path):
        """The text of a C++ file with everything that is not code blanked, line for line."""
        return NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), self.text[path])

    def includes(self, path):
        text = re.sub(r"/\*.*?\*/", lambda match: "\n" * match.group().count("\n"),
                      self.text[path], flags=re.DOTALL)
        for match in INCLUDE.finditer(text):
            yield Include(line_of(text, match.start(1)), match.group(1),
                          self._target(path, match.group(1)))

    def _target(self, path, name):
        beside = os.path.normpath(os.path.join(os.path.dirname(path), name)).replace(os.sep, "/")
        installed = [root + "/" + name for root in ROOTS_OF_INSTALLED if name.startswith("lockstep/")]
        for candidate in (os.path.normpath(name), beside, *installed):
            if candidate in self.text:
                return candidate
        return None


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def is_under(path, folders):
    """Whether a path is one of `folders` (or files), or lies in one of them."""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)
