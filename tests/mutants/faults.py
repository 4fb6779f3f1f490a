"""The page of the faults that are caught, docs/faults.md: a line for each mutant and each place that catches it.

The page is read, gets new lines for old ones, and is written: try.py tries mutants one by one, and seldom all.
"""

import json
import re

HEAD = """# Planted mistakes, and the smallest case that shows each

Each mutant of `tests/mutants` is a mistake planted in `ddp/` or in a training program. `tests/mutants/try.py --faults
docs/faults.md` plants them one by one, runs the scenarios that must catch them (seed 7, simulated worlds where no
backend is named), shrinks what failed ([shrinking.md](shrinking.md)), and writes this page. *Smallest case* gives the
fields that differ from their defaults. *Case* is the number of the drawn case that failed first, *seconds* what all
cases took until then, its second run included, *down* the steps from there to the smallest case, and *runs* the cases
tried on the way.
"""
COLUMNS = """| mutant | mistake | caught by | as | smallest case | case | seconds | down | runs |
|---|---|---|---|---|---:|---:|---:|---:|
"""
LINE = re.compile(r"^\| `([^`]+)` \| .* \| `([^`]+)` \| [^|]* \| .* \| *\d+ \|.*\|$")


def listed(named, mutants):
    return f"Listed are {named} of {mutants} mutants, those that were tried."


def place_of(caught):
    return caught.scenario if caught.backend == "memory" else f"{caught.scenario} on {caught.backend}"


def cell(text):
    """A text in a table of Markdown."""
    return " ".join(text.split()).replace("|", "\\|")


def fields(value, path=""):
    """["world.size 3", "layers [...]"] of a case's JSON, in its order."""
    if not isinstance(value, dict):
        return [f"{path} {value if isinstance(value, str) else compact(value)}"]
    return [text for name, part in value.items() for text in fields(part, f"{path}.{name}" if path else name)]


def compact(value):
    """A list of objects as their fields, everything else as JSON has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(fields(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(compact(part) for part in value) + "]"
    return json.dumps(value)


def line(mutant, place, outcome):
    """None where the failure was not shrunk."""
    failure = outcome.failure
    shrunk = failure.get("shrunk")
    if not shrunk:
        return None
    smallest = " · ".join(fields(failure["unlike_default"])) or "the default"
    down = str(shrunk["steps"]) + ("" if shrunk["end"] == "smallest" else "+")
    cells = (f"`{mutant.name}`", cell(mutant.mistake), f"`{place}`", " ".join((outcome.result, outcome.pattern)).strip(),
             cell(smallest), failure["number"], f"{outcome.seconds:.1f}", down, shrunk["runs"])
    return "| " + " | ".join(map(str, cells)) + " |"


class Page:
    def __init__(self):
        self.lines = {}  # by mutant and place

    @classmethod
    def read(cls, path):
        """Reads the page; one that is not there, or has no such lines, gives nothing."""
        page = cls()
        for text in path.read_text().splitlines() if path.exists() else []:
            found = LINE.match(text)
            if found:
                page.lines[found[1], found[2]] = text
        return page

    def add(self, mutant, place, outcome):
        text = line(mutant, place, outcome)
        if text:
            self.lines[mutant.name, place] = text

    def problems(self, mutants, backends):
        """Where it does not list what these mutants say of themselves on these backends."""
        for mutant in mutants:
            for place in (place_of(each) for each in mutant.caught_by if each.backend in backends):
                text = self.lines.get((mutant.name, place))
                if text is None:
                    yield f"lacks a line for {mutant.name}, which {place} catches: try.py --faults writes it"
                elif not text.startswith(f"| `{mutant.name}` | {cell(mutant.mistake)} | "):
                    yield f"says another mistake of {mutant.name} than its file: {mutant.mistake}"

    def write(self, path, mutants):
        """`mutants`: how many there are."""
        lines = [text for _, text in sorted(self.lines.items())]
        plus = "\nA `+` says that the time for shrinking ended the search.\n" if any("+ |" in text for text in lines) else ""
        named = len({name for name, _ in self.lines})
        count = "\n" + listed(named, mutants) + "\n\n"
        path.write_text(HEAD + count + COLUMNS + "\n".join(lines) + "\n" + plus)
