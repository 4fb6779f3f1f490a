"""The types that a program that links several libraries may find twice."""

import re

from tree import Problem, is_under, line_of

# Each of bench, examples and tests is a program.
LIBRARIES = ("ddp", "train", "reference", "harness", "recorder", "scenarios", "reports", "demos", "cli")

# A namespace ("" without a name), a type that is defined, or a brace.
SCOPES = re.compile(r"\bnamespace\s*([\w:]*)\s*\{|"
                    r"\b(?:struct|class|union|enum(?: class)?)\s+(\w+)(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{|[{}]")


def types_of(code):
    """(namespace, name, where) of each type that other files see too, if they are linked with this one."""
    open_scopes = []  # Names of namespaces, None for what is none.
    for match in SCOPES.finditer(code):
        if match[0] == "}":
            del open_scopes[-1:]
            continue
        if match[2] and all(open_scopes):
            yield "::".join(open_scopes), match[2], match.start()
        open_scopes.append(match[1] if match[0].startswith("namespace") else None)


def one_definition(tree):
    """A program that links two types of one name has the functions of one for both, and no linker says so."""
    first = {}
    for path in tree.cpp:
        if is_under(path, LIBRARIES):
            for space, name, where in types_of(tree.code(path)):
                other = first.setdefault((space, name), path)
                if space and other != path:
                    yield Problem(path, line_of(tree.code(path), where), f"{other} has a {space}::{name} too")
