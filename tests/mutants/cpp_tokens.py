"""The tokens of a C++ file with their places, without comments and preprocessor lines, and which brackets are pairs."""

import dataclasses
import re

TOKEN = re.compile(r"""
  (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
| (?P<directive>(?<![^\n])[ \t]*\#(?:\\\n|[^\n])*)
| (?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
| (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
| (?P<word>[A-Za-z_]\w*)
| (?P<operator><=>|->\*|\.\.\.|<<=|>>=|::|->|\+\+|--|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<|[^\w\s])
""", re.VERBOSE | re.DOTALL)
PAIRS = {"(": ")", "[": "]", "{": "}"}
DECLARES = {"const", "auto", "volatile", "unsigned", "signed", "int", "bool", "char", "double", "float", "long", "short",
            "static", "thread_local"}


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    begin: int
    end: int


def tokens_of(text):
    """Raises ValueError where the text is no C++ that this understands."""
    found, place = [], 0
    while place < len(text):
        match = TOKEN.match(text, place)
        if not match:
            raise ValueError(f"no token at {text[place:place + 20]!r}")
        if match.lastgroup not in ("skip", "directive"):
            kind = "string" if match.group("string") else match.lastgroup
            found.append(Token(kind, match.group(), match.start(), match.end()))
        place = match.end()
    return found


def pairs_of(tokens):
    """{index of an opening bracket: index of its closing one}."""
    pairs, open_ones = {}, []
    for index, token in enumerate(tokens):
        if token.kind != "operator":
            continue
        if token.text in PAIRS:
            open_ones.append(index)
        elif token.text in PAIRS.values():
            if not open_ones or PAIRS[tokens[open_ones[-1]].text] != token.text:
                raise ValueError(f"a bracket without its other one at {token.begin}")
            pairs[open_ones.pop()] = index
    if open_ones:
        raise ValueError(f"a bracket that is never closed at {tokens[open_ones[-1]].begin}")
    return pairs


class Source:
    """A file's text with its tokens. `begin` and `end` are indices of tokens, `end` one behind the last."""

    def __init__(self, text):
        self.text, self.tokens = text, tokens_of(text)
        self.pairs = pairs_of(self.tokens)

    def word(self, index):
        return self.tokens[index].text if index < len(self.tokens) else ""

    def find(self, word, begin, end):
        """The index of the first such token outside of brackets."""
        while begin < end and self.word(begin) != word:
            begin = self.pairs.get(begin, begin) + 1
        return begin

    def all_of(self, word, begin, end):
        found = []
        while (begin := self.find(word, begin, end)) < end:
            found.append(begin)
            begin += 1
        return found

    def opens_a_function(self, brace):
        before = self.word(brace - 1)
        if before in (")", "mutable", "noexcept"):
            opens = next((i for i, closes in self.pairs.items() if closes == brace - 1), 0)
            return before != ")" or self.word(opens - 1) == "]" or self.word(opens - 1) == ">"
        if before == "]":
            return True
        place = brace - 1
        while self.tokens[place].kind == "word" or self.word(place) in ("::", "<", ">", "*", "&", ","):
            place -= 1
        return self.word(place) == "->" and self.word(place - 1) == ")"

    def is_declaration(self, begin, end):
        if self.word(begin) in DECLARES:
            return True
        index, depth = begin, 0
        if self.tokens[begin].kind != "word" or self.word(begin) in ("return", "throw", "break", "continue", "else"):
            return False
        while index < end and (self.tokens[index].kind in ("word", "number") or self.word(index) in
                               ("::", "<", ">", ",", "*", "&", "&&")):
            word, before = self.word(index), self.word(index - 1)
            depth += (word == "<") - (word == ">")
            if index > begin and depth == 0 and self.tokens[index].kind == "word" and before not in ("::", ","):
                behind = self.word(index + 1)
                is_spaced = before in ("*", "&", "&&") and self.text[self.tokens[index - 1].begin - 1] == " "
                return not is_spaced and behind in ("=", ";", "(", "{", "[", ",", ":", ")")
            index += 1
        return False
