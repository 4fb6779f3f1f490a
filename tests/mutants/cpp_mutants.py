"""The mutants of a C++ file: small mistakes, each at one place in the body of a function.

A site is what a mutant replaces whole: a condition, the value that a declaration starts with, or a statement. This reads
tokens and no types, so some mutants do not compile; a build leaves those out. Operators with blanks around
them are arithmetic or comparisons, and others belong to types, as clang-format writes them.
"""

import dataclasses
import re

from cpp_tokens import Source

SWAPPED = {"comparison changed": {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
           "and/or swapped": {"&&": "||", "||": "&&"},
           "arithmetic changed": {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "+=": "-=", "-=": "+="}}
STEPS = {"++": "--", "--": "++"}
TRUTHS = {"true": "false", "false": "true"}
SIZES = {"size", "numel", "dim"}
NOT_CALLED = {"if", "while", "for", "switch", "return", "sizeof", "decltype", "alignof", "catch", "noexcept"}
NO_STATEMENT = {"using", "typedef", "static_assert", "template", "constexpr", "extern", "goto", "delete"}
TYPES = {"struct", "class", "union", "enum"}
ENDS_BODY_HEAD = {")", "const", "noexcept", "override", "final", "&", "&&", "try", "}"}


@dataclasses.dataclass(frozen=True)
class Site:
    form: str  # condition, value or statement
    begin: int
    end: int
    holds_functions: bool  # with bodies that have sites of their own: it is not written twice


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    operator: str
    site: Site
    begin: int  # of the text replaced; equal to `end` where the whole site is meant
    end: int
    before: str  # for a reader, with what is around it
    after: str
    replacement: str = ""

    def key(self):
        return f"{self.file}:{self.line}: {self.operator}: {self.before} -> {self.after}"


class Reader(Source):
    """Reads the functions of one file."""

    def __init__(self, file, text):
        super().__init__(text)
        self.file, self.mutants = file, []

    def read(self):
        for begin in self.bodies():
            self.block(begin)
        return self.mutants

    # Functions.

    def bodies(self):
        index = head = 0
        while index < len(self.tokens):
            word = self.word(index)
            if word in (";", "}"):
                head = index + 1
            elif word in ("(", "["):
                index = self.pairs[index]
            elif word == "{":
                kind = self.kind_of_brace(head, index)
                if kind == "function":
                    yield index
                if kind == "scope":
                    head = index + 1
                else:
                    index = self.pairs[index]
                    if kind in ("function", "skipped"):
                        head = index + 1
            index += 1

    def kind_of_brace(self, head, brace):
        """scope, function, skipped (what runs at compile time, a list of constants), or value."""
        flat, index = [], head
        while index < brace:
            flat.append(self.word(index))
            if self.tokens[index].kind == "operator" and index in self.pairs:
                index = self.pairs[index]
                flat.append(self.word(index))
            else:
                index += 1
                continue
            index += 1
        if {"constexpr", "consteval", "enum"} & set(flat):
            return "skipped"
        assigned = [i for i, word in enumerate(flat) if word == "=" and (i == 0 or flat[i - 1] != "operator")]
        if assigned:
            return "value"
        if ")" in flat:
            behind = flat[len(flat) - flat[::-1].index(")"):]
            is_body = flat[-1] in ENDS_BODY_HEAD or "->" in behind
            return "function" if is_body else "value"
        return "scope" if {"namespace", "extern"} & set(flat) or TYPES & set(flat) else "value"

    # Statements; each returns the index behind what it has read.

    def block(self, index):
        end = self.pairs[index]
        index += 1
        while index < end:
            index = self.statement(index)
        return end + 1

    def statement(self, index):
        word = self.word(index)
        if word == "{":
            return self.block(index)
        if word in ("if", "while", "switch", "for"):
            return self.controlled(index)
        if word == "do":
            index = self.statement(index + 1)  # at its while
            self.condition(index + 2, self.pairs[index + 1])
            return self.pairs[index + 1] + 2
        if word == "try":
            index = self.block(index + 1)
            while self.word(index) == "catch":
                index = self.block(self.pairs[index + 1] + 1)
            return index
        if word in ("case", "default"):
            while self.word(index) != ":":
                index += 1
            return index + 1
        end = self.find(";", index, len(self.tokens))
        self.simple(index, end)
        return end + 1

    def controlled(self, index):
        word, opens = self.word(index), index + 1
        while self.word(opens) != "(":
            opens += 1
        closes = self.pairs[opens]
        parts = [opens] + self.all_of(";", opens + 1, closes)
        if word in ("switch", "for") and len(parts) < 3 or self.word(index + 1) == "constexpr":
            self.functions_in(opens + 1, closes)
        elif word == "for":
            self.simple(opens + 1, parts[1])
            if parts[1] + 1 < parts[2]:
                self.condition(parts[1] + 1, parts[2])
        else:
            if len(parts) == 2:
                self.simple(opens + 1, parts[1])
            self.condition(parts[-1] + 1, closes)
        index = self.statement(closes + 1)
        if word == "if" and self.word(index) == "else":
            index = self.statement(index + 1)
        return index

    def condition(self, begin, end):
        holds_functions = self.functions_in(begin, end)
        if self.is_declaration(begin, end):
            return
        site = self.site("condition", begin, end, holds_functions)
        if site is None:
            return
        whole = self.text[site.begin:site.end]
        self.add(site, "condition negated", site.begin, site.begin, f"({whole})", f"(!({whole}))")
        self.add(site, "branch never taken", site.begin, site.begin, f"({whole})", "(false)")
        self.edits(site, begin, end)

    def simple(self, begin, end):
        """A statement without others in it, but in functions without a name."""
        first = self.word(begin)
        if first in NO_STATEMENT or first in TYPES or first == "[" and self.word(begin + 1) == "[" or begin >= end:
            return
        holds_functions = self.functions_in(begin, end)
        if self.is_declaration(begin, end):
            values = self.all_of("=", begin, end)
            if values and first != "static" and self.word(values[0] + 1) != "{":
                site = self.site("value", values[0] + 1, end, holds_functions)
                if site:
                    self.edits(site, values[0] + 1, end)
            return
        if self.word(end) != ";" or self.word(begin - 1) == "(":
            return  # The first part of a for.
        site = self.site("statement", begin, end + 1, holds_functions)
        if site is None:
            return
        if first != "return" or begin + 1 == end:
            self.add(site, "statement dropped", site.begin, site.begin, self.text[site.begin:site.end], "")
        self.edits(site, begin, end)

    # Parts.

    def site(self, form, begin, end, holds_functions):
        place = Site(form, self.tokens[begin].begin, self.tokens[end - 1].end, holds_functions)
        return None if "\n#" in self.text[place.begin:place.end] else place

    def functions_in(self, begin, end):
        """Reads the bodies of functions without a name between these tokens. True if there is one."""
        found = False
        while begin < end:
            if self.word(begin) == "{" and self.opens_a_function(begin):
                self.block(begin)
                begin, found = self.pairs[begin], True
            begin += 1
        return found

    # Mistakes.

    def add(self, site, operator, begin, end, before, after, replacement=""):
        line = self.text.count("\n", 0, begin) + 1
        self.mutants.append(Mutant(self.file, line, operator, site, begin, end, " ".join(before.split()),
                                   " ".join(after.split()), replacement))

    def edits(self, site, begin, end):
        if site.holds_functions:
            return
        for index in range(begin, end):
            token = self.tokens[index]
            for operator, new in self.edits_of(index):
                self.add(site, operator, token.begin, token.end, self.shown(token.begin, token.end),
                         self.shown(token.begin, token.end, new), new)
            if token.text == "(":
                self.swaps(site, index)
            if token.text in SIZES and self.word(index + 1) == "(" and self.word(index + 2) == ")":
                place = self.tokens[index + 2].end
                self.add(site, "bound moved", place, place, self.shown(token.begin, place),
                         self.shown(token.begin, place, self.text[token.begin:place] + " - 1"), " - 1")

    def edits_of(self, index):
        token = self.tokens[index]
        is_spaced = self.text[token.begin - 1].isspace() and self.text[token.end:token.end + 1].isspace()
        for operator, swapped in SWAPPED.items():
            if token.text in swapped and is_spaced and not self.joins_text(index):
                yield operator, swapped[token.text]
        if token.text in STEPS:
            yield "arithmetic changed", STEPS[token.text]
        if token.text in TRUTHS:
            yield "constant changed", TRUTHS[token.text]
        if token.text == "!" and not is_spaced:
            yield "negation dropped", ""
        whole = re.fullmatch(r"(\d+)([uUlL]*)", token.text)
        if whole:
            yield "constant changed", f"{int(whole[1]) + 1}{whole[2]}"
            if int(whole[1]) > 0:
                yield "constant changed", f"{int(whole[1]) - 1}{whole[2]}"

    def joins_text(self, index):
        return any(self.tokens[place].kind == "string" for place in (index - 1, index + 1))

    def swaps(self, site, opens):
        before, closes = self.tokens[opens - 1], self.pairs[opens]
        if before.kind != "word" or before.text in NOT_CALLED:
            return
        borders = [opens] + self.all_of(",", opens + 1, closes) + [closes]
        places = [(self.tokens[left + 1].begin, self.tokens[right - 1].end)
                  for left, right in zip(borders, borders[1:]) if left + 1 < right]
        for (a, a_end), (b, b_end) in zip(places, places[1:]):
            one, other = self.text[a:a_end], self.text[b:b_end]
            if one != other:
                self.add(site, "argument swapped", a, b_end, f"{before.text}({one}, {other})",
                         f"{before.text}({other}, {one})", self.swapped(a, a_end, b, b_end))

    def swapped(self, a, a_end, b, b_end):
        return self.text[b:b_end] + self.text[a_end:b] + self.text[a:a_end]

    def shown(self, begin, end, new=None):
        """The text with what is around it on its line."""
        left = max(self.text.rfind("\n", 0, begin) + 1, begin - 40)
        right = self.text.find("\n", end)
        right = min(len(self.text) if right < 0 else right, end + 40)
        return self.text[left:begin] + (self.text[begin:end] if new is None else new) + self.text[end:right]


def mutants_of(file, text):
    return Reader(file, text).read()
