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

`./lockstep faults --diff A..B` asks the same of any change of the library: it takes back each hunk of a correction in a
clone, builds it, runs the catalogue in simulated worlds, and says what escaped, then what could not be built or applied,
then what was caught, by which scenario, on which case, and on which smallest one. `./lockstep faults --patch FILE` plants
a mistake that you have in mind.

`tests/mutants/auto.py` draws small mistakes by a seed instead (a comparison changed, a statement left out, ...), builds
hundreds of them into one program, and runs each.
"""
DRAWN = "## Mutants that are drawn\n"
WRITTEN = "## Mutants that are written\n"
COLUMNS = """| mutant | mistake | caught by | as | smallest case | case | seconds | down | runs |
|---|---|---|---|---|---:|---:|---:|---:|
"""
LINE = re.compile(r"^\| `([^`]+)` \| .* \| `([^`]+)` \| [^|]* \| .* \| *\d+ \|.*\|$")


def listed(named, mutants):
    return f"Listed are {named} of {mutants} mutants, those that were tried."


def survives(row):
    """True of an automatic mutant that counts and that nothing caught (auto.py writes the rows)."""
    return not row["caught_by"] and not row["is_equivalent"]


def cells_of(row):
    """A survivor's row of a page, but for its line and for what reaches it."""
    return f"| {row['operator']} | `{cell(row['before'])}` | `{cell(row['after'])}` |"


def is_listed(row, page):
    """Whether the text of a page lists this survivor, on whatever line of its file."""
    return any(line.startswith(f"| `{row['file']}:") and cells_of(row) in line for line in page.splitlines())


def is_caught_by_scenario(row):
    return bool(row["caught_by"]) and row["as"] != "unit test"


def scores(rows):
    """A line for each file: of those that count, how many scenarios, unit tests and nothing caught."""
    counted = [row for row in rows if not row["is_equivalent"]]
    lines = []
    for file in sorted({row["file"] for row in counted}) + [""]:
        of_it = [row for row in counted if row["file"] == file or not file]
        by_scenario = sum(map(is_caught_by_scenario, of_it))
        left = sum(map(survives, of_it))
        lines.append(f"| {f'`{file}`' if file else 'all'} | {len(of_it)} | {by_scenario} | {len(of_it) - by_scenario - left} | {left} |")
    return "\n".join(lines)


def automatic(rows, seed):
    """The section of the mutants that auto.py drew: those that survive first."""
    left = "".join(f"| `{row['file']}:{row['line']}` {cells_of(row)} {'yes' if row['is_reached'] else 'no'} |\n"
                   for row in rows if survives(row))
    same = sum(row["is_equivalent"] for row in rows)
    return (f"{DRAWN}\n`tests/mutants/auto.py --seed {seed}` drew {len(rows)} that compile, of which {same} change nothing "
            "(`tests/mutants/automatic/equivalent.toml` says why).\nThe *survivors*, and whether a scenario reaches each:\n\n"
            "| place | operator | before | after | reached |\n|---|---|---|---|---|\n" + left +
            "\nBy file: how many count, and how many of them a scenario, only a unit test and nothing caught.\n\n"
            "| file | mutants | scenario | unit test | survive |\n|---|---:|---:|---:|---:|\n" + scores(rows) + "\n\n")


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
        self.automatic = ""  # the section of auto.py
        self.by_hand = ""  # what stands between the two tables and no tool writes

    @classmethod
    def read(cls, path):
        """Reads the page; one that is not there, or has no such lines, gives nothing."""
        page = cls()
        whole = path.read_text() if path.exists() else ""
        if DRAWN in whole:
            between = whole[whole.index(DRAWN):whole.index(WRITTEN)]
            end = between.find("\n## ") + 1 or len(between)
            page.automatic, page.by_hand = between[:end], between[end:]
        for text in whole.splitlines():
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
        path.write_text(HEAD + "\n" + self.automatic + self.by_hand + WRITTEN + count + COLUMNS + "\n".join(lines) + "\n" + plus)
