"""docs/patterns.md and the names of patterns in code, held to each other."""

import re

from tree import Problem, is_under, line_of

PAGE = "docs/patterns.md"
NAME = r"[a-z][a-z_]*"

# How code names a pattern: as an explanation, a relation, or part of a finding whose rule is a sentence.
NAMED = [re.compile(form) for form in (
    rf'(?:recorded_instead\(|Diagnosis|\bwrong,)\s*\{{\s*"({NAME})"\s*,',
    rf'Relation\s*\{{\s*"({NAME})"',
    rf'Relation\s*\{{\s*"{NAME}",\s*"({NAME})"',
    rf'\bpattern = "({NAME})"',
    rf'(?:\{{|broken\()\s*"[A-Z][^"]*",\s*"({NAME})"',
    rf'\bis_last \? "({NAME})"|\b(?:kTierBroke\[\]|kMismatched) = "({NAME})"',
)]
# Where a diagnosis is what a function returns.
RETURNED = re.compile(rf'(?:return \{{|[\w>.)(-]+ : )"({NAME})"[,\s]')
DIAGNOSES = "harness/verdict/diagnose.cpp"
CORE_NAMES = (DIAGNOSES, "harness/verdict/explanations.cpp", "harness/verdict/relation.cpp")


def _named(tree, path):
    forms = NAMED + ([RETURNED] if path == DIAGNOSES else [])
    for form in forms:
        for match in form.finditer(tree.text[path]):
            yield next(name for name in match.groups() if name), line_of(tree.text[path], match.start())


def patterns(tree):
    """A pattern that no page explains says nothing; one that no code names any more misleads."""
    page = tree.text.get(PAGE, "")
    listed = {match.group(1): line_of(page, match.start())
              for match in re.finditer(rf"^\| `({NAME})` \|", page, re.MULTILINE)}
    code = [path for path in tree.cpp if is_under(path, ("harness", "scenarios", "demos"))]
    for path in code:
        for name, line in _named(tree, path):
            if name not in listed:
                yield Problem(path, line, f"pattern '{name}' is not in {PAGE}")
            if path in CORE_NAMES and not any(
                    f'"{name}"' in tree.text[test] for test in tree.cpp if is_under(test, ("tests/verdict",))):
                yield Problem(path, line, f"no test in tests/verdict has seen pattern '{name}'")
    for name, line in listed.items():
        if not any(f'"{name}"' in tree.text[path] for path in code):
            yield Problem(PAGE, line, f"no code names pattern '{name}'")
