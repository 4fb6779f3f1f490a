"""Files and notes that comments and pages name, held to those that are there."""

import re

from tree import Problem, is_under, line_of

FOLDERS = "ddp|train|harness|scenarios|reference|reports|demos|cli|recorder|tests|docs|bench|examples|cmake|launcher|python"
# A name in capitals, such as NAME.cpp, stands for any file.
PATH = re.compile(rf"(?<![\w/.$}}-])((?:{FOLDERS})/(?:[\w.-]+/)*[a-z][\w-]*\.(?:h|cpp|py|md|def|sh|toml))\b")
# These pages leave out the first folders of a path.
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")
SHORT = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:h|cpp|py|md|def))`")
CITED = re.compile(r"\bNotes?\s+((?:\[[A-Z][^\]]+\](?:,?\s+and\s+|,\s+)?)+)")
DEFINED = re.compile(r"^[ ]*(?://|#) Note \[([^\]]+)\]", re.MULTILINE)
TEXT = (".h", ".cpp", ".md", ".cmake", "CMakeLists.txt")


def _flat(text):
    """Comments that go over several lines as one, with as many characters."""
    return re.sub(r"\n[ ]*(?://|#) ?|\n", lambda found: " " * len(found.group()), text)


def _title(text):
    return " ".join(_flat(text).split())


def named_files(tree):
    """A comment that leads to a file that is gone, or to a note that nobody wrote, leads a reader astray."""
    notes = {_title(title) for text in tree.text.values() for title in DEFINED.findall(text)}
    for path in tree.paths:
        if not path.endswith(TEXT) or is_under(path, ("tests",)):
            continue
        text = tree.text[path]
        named = [match for match in PATH.finditer(text) if match[1] not in tree.text]
        if path in PAGES:
            named += [match for match in SHORT.finditer(text) if not any(("/" + each).endswith("/" + match[1]) for each in tree.paths)]
        for match in named:
            yield Problem(path, line_of(text, match.start()), f"names {match[1]}, which is not there")
        for match in CITED.finditer(_flat(text)):
            for title in map(_title, re.findall(r"\[([^\]]+)\]", match[1])):
                if title not in notes:
                    yield Problem(path, line_of(text, match.start()), f"cites Note [{title}], which nobody has written")
