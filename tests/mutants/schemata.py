"""Many mutants in one build: each file holds all of its own, and the environment variable LOCKSTEP_MUTANT chooses one.

A value becomes `is(7) ? (mistake) : (value)`, a statement is written once for each of its mutants. With LOCKSTEP_MUTANT=-1
none is chosen, and the file that LOCKSTEP_MUTANTS_REACHED names gets a 1 at the number of each that was reached.
"""

import os
import re
import signal
import subprocess

SWITCH = "tests/mutants/mutant_switch.h"
HEAD = f'''#ifdef __clang__
#pragma clang diagnostic ignored "-Weverything"
#endif
#include "{SWITCH}"
'''
DIAGNOSTIC = re.compile(r"^(?:In file included from )?([^\s:][^:\n]*):(\d+):(?:\d+:)? (?:fatal )?(error|warning|note):", re.MULTILINE)


def chosen(number):
    return f"::lockstep_mutant::is({number})"


class Rewritten:
    """One file with its mutants, {number: Mutant}."""

    def __init__(self, text, mutants):
        self.text, self.mutants = text, mutants
        self.by_site = {}
        for number, mutant in mutants.items():
            self.by_site.setdefault(mutant.site, []).append(number)

    def whole(self):
        return HEAD + self.part(0, len(self.text), sorted(self.by_site, key=lambda site: (site.begin, -site.end)))

    def part(self, begin, end, sites):
        """The text between two places, of which these sites are a part."""
        out, place = [], begin
        while sites:
            site, rest = sites[0], sites[1:]
            inner = [each for each in rest if each.end <= site.end]
            out += [self.text[place:site.begin], self.site(site, inner)]
            place, sites = site.end, rest[len(inner):]
        return "".join(out) + self.text[place:end]

    def site(self, site, inner):
        numbers = self.by_site[site]
        plain = self.part(site.begin, site.end, inner)
        edited = [number for number in numbers if self.mutants[number].begin != self.mutants[number].end
                  or self.mutants[number].operator == "bound moved"]
        whole = [number for number in numbers if number not in edited]
        lines = [f"\n/*site {min(numbers)}*/"]
        if site.form == "statement":
            lines += [f"{{ if ({chosen(number)}) {{ {self.edit(site, number)} }} else" for number in edited]
            lines += [f"{{ if ({chosen(number)}) {{ /*mutant {number}*//*mutant end*/ }} else" for number in whole]
            return "\n".join(lines) + f"\n{{ {plain} }}" + " }" * len(numbers) + "\n/*end*/"
        # The common type of an optional and a bool is the optional, of which even a false one is true.
        cast = "static_cast<bool>" if site.form == "condition" else ""
        value = "(" + "".join(f"\n{chosen(number)} ? {cast}({self.edit(site, number)}) :" for number in edited) + f"\n{cast}({plain}))"
        for number in whole:
            is_it, value = chosen(number), f"static_cast<bool>({value})"
            value = f"({is_it} != {value})" if self.mutants[number].operator == "condition negated" else f"(!{is_it} && {value})"
        return lines[0] + value + "\n/*end*/"

    def edit(self, site, number):
        mutant = self.mutants[number]
        return (f"/*mutant {number}*/{self.text[site.begin:mutant.begin]}{mutant.replacement}"
                f"{self.text[mutant.end:site.end]}/*mutant end*/")


def run_with(number, command, folder, reached, limit):
    """(exit code, or None where the time was over, and what it said) of a command with a mutant; nothing that it started outlives its limit."""
    environment = os.environ | {"LOCKSTEP_MUTANT": str(number), "LOCKSTEP_MUTANTS_REACHED": str(reached)}
    process = subprocess.Popen([str(part) for part in command], env=environment, cwd=folder, text=True, errors="replace",
                               start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = process.communicate(timeout=limit)[0]
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]


def numbers_in(reached):
    """The mutants that a command has reached; `reached` is the file that it wrote."""
    ones = reached.read_bytes() if reached.exists() else b""
    return {number for number, one in enumerate(ones) if one}


def numbers_at(text, line):
    """The mutants that a line of a rewritten file belongs to: one, or all of a site, or none."""
    begin = sum(map(len, text.splitlines(keepends=True)[:line - 1]))
    end = text.find("\n", begin)
    here = re.findall(r"/\*mutant (\d+)\*/", text[begin:end if end >= 0 else len(text)])
    if here:
        return set(map(int, here))
    opened, closed = text.rfind("/*mutant ", 0, begin), text.rfind("/*mutant end*/", 0, begin)
    if opened > closed:
        return {int(re.match(r"/\*mutant (\d+)", text[opened:])[1])}
    site, end = text.rfind("/*site ", 0, begin), text.rfind("/*end*/", 0, begin)
    if site > end:
        stop = text.find("/*end*/", begin)
        return set(map(int, re.findall(r"lockstep_mutant::is\((\d+)\)", text[site:stop])))
    return set()


def do_not_compile(output, texts):
    """The numbers that a compiler's errors, and the notes beside them, point at. `texts`: {path: rewritten text}."""
    found, in_error = set(), False
    for path, line, kind in DIAGNOSTIC.findall(output):
        in_error = kind == "error" or in_error and kind == "note"
        for known, text in texts.items():
            if in_error and path.endswith(known):
                found |= numbers_at(text, int(line))
    return found
