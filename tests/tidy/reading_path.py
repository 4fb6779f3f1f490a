"""docs/architecture.md: its reading path, and its tables of files, held to the files that are there."""

import os
import re

from tree import Problem, is_under, line_of

PAGE, HEADING = "docs/architecture.md", "## The evening's path"
ROW = re.compile(r"^\| \[`([^`]+)`\]\(\.\./([^)]+)\) \| (\d+) \| .+ \|$", re.MULTILINE)
TOTAL = re.compile(r"These (\d+) files.*?about ([\d,]+) lines", re.DOTALL)


def is_off(stated, lines):
    """For a total that says "about"."""
    return abs(stated - lines) * 30 > lines


def reading_path(tree):
    """A path whose files are gone, or longer than it says, leads nobody anywhere."""
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
        if int(stated) != lines:
            yield Problem(PAGE, line, f"{path} has {lines} lines, not {stated}")
    total = TOTAL.search(part)
    line = line_of(text, start + total.start() if total else start)
    if not total or int(total[1]) != count or is_off(int(total[2].replace(",", "")), lines_of_all):
        yield Problem(PAGE, line, f"states another number than {count} files and about {lines_of_all} lines")


# A file in a table of the sections on these folders: its name, or that of a .h and its .cpp; the mark says that it is free of torch.
TABLED = ("ddp", "train", "harness/verdict")
ENTRY = re.compile(r"`([\w.]+)`(•?)")
ANY_TORCH = re.compile(r"(?:torch|ATen|c10|gloo)/")


def _sees_torch(tree, path, seen):
    if path in seen:
        return False
    seen.add(path)
    includes = list(tree.includes(path))
    return any(ANY_TORCH.match(each.name) for each in includes) or any(
        each.target and _sees_torch(tree, each.target, seen) for each in includes)


def file_tables(tree):
    """A reader finds each file of the library in its table, and what it costs to include."""
    text = tree.text.get(PAGE, "")
    for folder in TABLED:
        start = text.find(f"## Inside `{folder}/`")
        if start < 0:
            continue
        end = text.find("\n## ", start)
        rows = [line for line in text[start:end if end > 0 else len(text)].split("\n") if line.startswith("|")]
        marks = {name: mark for row in rows for name, mark in reversed(ENTRY.findall(row.split(" | ")[0]))}
        for path in tree.cpp:
            name = os.path.basename(path)
            known = name if name in marks else name.rpartition(".")[0]
            if not is_under(path, (folder,)) or path.startswith(folder + "/lockstep/"):
                continue
            if known not in marks:
                yield Problem(PAGE, line_of(text, start), f"has no row for {path}")
            elif marks[known] and _sees_torch(tree, path, set()):
                yield Problem(PAGE, line_of(text, start), f"calls {path} free of torch, and it includes torch")
