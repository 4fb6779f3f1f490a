"""A planted mistake: a TOML file of this folder, read, checked and planted.

mistake       what is wrong, and where it was seen
[[caught_by]] scenario, which must fail; backend (memory) on which it does; pattern, the diagnosis that it
              must give (any); note, for the reader
[[change]]    file, old, new: `old` is in the file exactly once and begins a line; `new` replaces it

A change names text and no line, so that a mistake outlives what changes around it.
"""

import dataclasses
import pathlib
import tomllib

BACKENDS = {"memory": "sim", "gloo": "cold", "accelerator": "cold"}  # where every machine can play, and the tier
HERE = pathlib.Path(__file__).resolve().parent
KEYS = {"": {"mistake", "caught_by", "change"}, "caught_by": {"scenario", "backend", "pattern", "note"},
        "change": {"file", "old", "new"}}


@dataclasses.dataclass(frozen=True)
class CaughtBy:
    scenario: str
    backend: str = "memory"
    pattern: str = ""
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Change:
    file: str
    old: str
    new: str

    def problem(self, root):
        """Why it cannot be planted in this tree, or nothing."""
        path = root / self.file
        if not path.is_file():
            return f"{self.file} is not there"
        text = path.read_text()
        count = text.count(self.old) if self.old else 0
        if count != 1:
            return f"its old text is in {self.file} {count} times, expected once: {self.old.strip()[:80]!r}"
        if self.old == self.new:
            return f"it changes nothing in {self.file}"
        if not ("\n" + text).count("\n" + self.old):
            return f"its old text does not begin a line of {self.file}: {self.old.strip()[:80]!r}"
        return ""


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    mistake: str
    caught_by: tuple
    changes: tuple

    def problems(self, root):
        found = [change.problem(root) for change in self.changes]
        if not self.mistake.strip():
            found.append("it does not say what is wrong")
        if not self.caught_by:
            found.append("it names no scenario that catches it")
        return [f"{self.name}.toml: {problem}" for problem in found if problem]

    def plant(self, root):
        """Changes the files of this tree. Two changes of one file may not overlap."""
        problems = self.problems(root)
        if problems:
            raise ValueError("; ".join(problems))
        for change in self.changes:
            path = root / change.file
            path.write_text(path.read_text().replace(change.old, change.new))


def load(path):
    """Throws ValueError with the file's name where it is no mutant."""
    try:
        data = tomllib.loads(path.read_text())
        entries = [("", data)] + [(kind, entry) for kind in ("caught_by", "change") for entry in data.get(kind, [])]
        for kind, entry in entries:
            unknown = set(entry) - KEYS[kind]
            if unknown:
                raise ValueError(f"{kind or 'it'} has no field {', '.join(sorted(unknown))}")
        return Mutant(path.stem, data["mistake"], tuple(CaughtBy(**each) for each in data.get("caught_by", [])),
                      tuple(Change(**each) for each in data["change"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name}: {type(error).__name__}: {error}") from error


def load_all(folder=HERE):
    return [load(path) for path in sorted(folder.glob("*.toml"))]
