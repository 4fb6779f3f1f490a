"""A planted mistake: a TOML file of this folder, read, checked and planted.

mistake       what is wrong, and where it was seen
[[caught_by]] scenario; backend (memory) on which it fails; pattern, the diagnosis that it must give (any); note, for the
              reader. A scenario whose must_catch names the mutant, of which nothing more is said, needs no entry
[[change]]    file, old, new: `old` is in the file exactly once and begins a line; `new` replaces it

A change names text and no line, so that a mistake outlives what changes around it.
"""

import dataclasses
import pathlib
import re
import tomllib

BACKENDS = {"memory": "sim", "gloo": "cold", "accelerator": "cold"}  # where every machine can run, and the tier
HERE = pathlib.Path(__file__).resolve().parent
NAME = re.compile(r'\.name = "([\w.]+)"')
MUST_CATCH = re.compile(r"\.must_catch =\s*\{([^}]*)\}")
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


def promises(root):
    """{mutant: scenarios}, in order of their names, as the scenarios' must_catch says."""
    found = {}
    for path in (root / "scenarios").rglob("*.cpp"):
        for part in path.read_text().split("return scenario<")[1:]:
            name, catches = NAME.search(part), MUST_CATCH.search(part)
            if name and catches and not name[1].startswith("canary."):
                for each in re.findall(r'"(\w+)"', catches[1]):
                    found.setdefault(each, set()).add(name[1])
    return {each: sorted(scenarios) for each, scenarios in found.items()}


def load(path, scenarios=()):
    """The mutant of this file, caught by these scenarios too. Throws ValueError with the file's name where it is none."""
    try:
        data = tomllib.loads(path.read_text())
        entries = [("", data)] + [(kind, entry) for kind in ("caught_by", "change") for entry in data.get(kind, [])]
        for kind, entry in entries:
            unknown = set(entry) - KEYS[kind]
            if unknown:
                raise ValueError(f"{kind or 'it'} has no field {', '.join(sorted(unknown))}")
        stated = [CaughtBy(**each) for each in data.get("caught_by", [])]
        further = [CaughtBy(each) for each in scenarios if each not in {known.scenario for known in stated}]
        return Mutant(path.stem, data["mistake"], tuple(stated + further), tuple(Change(**each) for each in data["change"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name}: {type(error).__name__}: {error}") from error


def load_all(folder=HERE):
    promised = promises(folder.parent.parent)
    return [load(path, promised.get(path.stem, ())) for path in sorted(folder.glob("*.toml"))]
