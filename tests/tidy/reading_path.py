"""The reading path of docs/architecture.md names files that are there, at about the sizes that it states."""

import re

from tree import Problem, line_of

PAGE, HEADING = "docs/architecture.md", "## The evening's path"
ROW = re.compile(r"^\| \[`([^`]+)`\]\(\.\./([^)]+)\) \| (\d+) \| .+ \|$", re.MULTILINE)
TOTAL = re.compile(r"These (\d+) files.*?about ([\d,]+) lines", re.DOTALL)


def is_off(stated, lines):
    return abs(stated - lines) * 10 > lines


def reading_path(tree):
    """A path whose files are gone, or have become twice as long, leads nobody anywhere."""
    if PAGE not in tree.text:
        return
    text = tree.text[PAGE]
    start = text.find(HEADING)
    if start < 0:
        yield Problem(PAGE, 1, f"has no '{HEADING}'")
        return
    end = text.find("\n## ", start + 1)
    part = text[start:end if end > 0 else len(text)]
    lines_of_all, count = 0, 0
    for row in ROW.finditer(part):
        shown, path, stated = row.groups()
        line = line_of(text, start + row.start())
        count += 1
        if shown != path or path not in tree.text:
            yield Problem(PAGE, line, f"leads to {path}, which is not there or has another name in the text")
            continue
        lines = tree.text[path].count("\n")
        lines_of_all += lines
        if is_off(int(stated), lines):
            yield Problem(PAGE, line, f"{path} has {lines} lines, not {stated}")
    total = TOTAL.search(part)
    line = line_of(text, start + total.start() if total else start)
    if not total or int(total[1]) != count or is_off(int(total[2].replace(",", "")), lines_of_all):
        yield Problem(PAGE, line, f"states another number than {count} files and about {lines_of_all} lines")
