"""The reference of ddp/ as Markdown, from its public headers: each declaration with the comment above it."""

import os
import re

# Comments and literals, in which braces and semicolons mean nothing.
OPAQUE = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'')
NAMED = (r"\b(?:class|struct|enum(?:\s+class)?|concept)\s+(?:\[\[\w+\]\]\s+)?(\w+)", r"\busing\s+(\w+)\s*=")


def public_headers(root):
    """The headers that lockstep/ddp.h includes."""
    with open(os.path.join(root, "train", "lockstep", "ddp.h"), encoding="utf-8") as file:
        return re.findall(r'#include "((?:ddp|train)/\w+\.h)"', file.read())


def blanked(code):
    """The code with spaces for comments and literals: every character stays in its place."""
    return OPAQUE.sub(lambda found: " " * len(found.group()), code)


def closing(plain, at):
    """The place of the brace that closes the one at `at`."""
    depth = 0
    for place in range(at, len(plain)):
        depth += {"{": 1, "}": -1}.get(plain[place], 0)
        if depth == 0:
            return place
    raise ValueError("a brace is not closed")


def name_of(code):
    """The name that a declaration declares."""
    plain = re.sub(r"^(?:template\s*<.*?>|requires\b[^\n]*)\n", "", blanked(code), flags=re.DOTALL)
    head = plain.split("{")[0]
    if made := re.match(r"TORCH_MODULE\((\w+)\)", head):
        return made[1]
    for pattern in NAMED:
        if found := re.search(pattern, head.split("(")[0]):
            return found[1]
    if "(" in head and "=" not in head.split("(")[0].replace("operator==", ""):
        return re.search(r"(operator\S+|~?\w+)\s*$", head.split("(")[0])[1]
    return re.search(r"(\w+)\s*(?:=|\{|;|$)", plain)[1]


def without_bodies(code):
    """The code with a semicolon in place of the body of each function."""
    plain, out, kept = blanked(code), "", 0
    begin = at = 0  # of the part that the next brace ends
    while at < len(plain):
        head = plain[begin:at]
        if plain[at] == "{" and 0 < head.count("(") == head.count(")") and not re.search(NAMED[0], head.split("(")[0]):
            initialisers = re.search(r"\)\s*(?:noexcept\s*)?(:\s)(?!:)", head)
            out += code[kept:begin + initialisers.start(1) if initialisers else at].rstrip() + ";"
            at = kept = closing(plain, at) + 1
            begin = at
        else:
            is_in_parentheses = head.count("(") > head.count(")")
            if plain[at] in ";{}" and not is_in_parentheses or plain[at] == ":" and re.search(r"\b(?:public|private|protected)$", plain[:at]):
                begin = at + 1
            at += 1
    return out + code[kept:]


def without_private_parts(code):
    """The code of a class without what users cannot call."""
    return re.sub(r"\n+ (?:private|protected):\n.*?(?=\n public:|\n};)", "", code, flags=re.DOTALL)


def declarations(text):
    """(comment, code) of each declaration in namespace lockstep; forward declarations are left out."""
    for inside in re.findall(r"(?ms)^namespace lockstep \{\n(.*?)^\}  // namespace lockstep$", text):
        plain, begin, at = blanked(inside), 0, 0
        while at < len(plain):
            if plain[at] == "{":
                at = closing(plain, at)
                if not re.match(r"\s*[;,(){]|\s*const\b", plain[at + 1:]):  # the end of a function's body
                    yield from declared(inside[begin:at + 1])
                    begin = at + 1
            elif plain[at] == ";":
                yield from declared(inside[begin:at + 1])
                begin = at + 1
            at += 1


def declared(part):
    """One declaration as (comment, code), or none."""
    lines = part.strip("\n").split("\n")
    first = next(at for at, line in enumerate(lines) if line.strip() and not line.startswith("//"))
    comment = "\n".join(line[3:] for line in lines[:first])
    code = "\n".join(lines[first:])
    if not re.fullmatch(r"(?:template\s*<[^;]*>\s*)?(?:class|struct|enum class) \w+(?: : \w+)?;", code):
        yield comment, without_private_parts(without_bodies(code))


def paragraphs(comment):
    """A comment as Markdown: what is indented in it is code."""
    out = []
    for line in comment.split("\n"):
        is_code = line.startswith("  ")
        if is_code and (not out or not out[-1].startswith("    ")) and out and out[-1]:
            out.append("")
        out.append("    " + line if is_code else re.sub(r"([<>*_\[\]])", r"\\\1", line) if "`" not in line else line)
    return "\n".join(out)


def page_of(root, header):
    """The page of one public header."""
    with open(os.path.join(root, header), encoding="utf-8") as file:
        text = file.read()
    page, before = "# %s\n\n```cpp\n#include \"%s\"\n```\n" % (header, header), None
    for comment, code in declarations(text):
        name = name_of(code)
        if name != before:
            page += "\n## %s\n" % name
        before = name
        page += "\n%s\n\n```cpp\n%s\n```\n" % (paragraphs(comment), code)
    return page


def pages(root):
    """Path below the site -> Markdown."""
    headers = public_headers(root)
    out = {"api/" + header[:-2] + ".md": page_of(root, header) for header in headers}
    rows = ""
    for header in headers:
        names = re.findall(r"(?m)^## (.*)$", out["api/" + header[:-2] + ".md"])
        rows += "| [%s](%s.md) | %s |\n" % (header, header[:-2], ", ".join("`%s`" % name for name in dict.fromkeys(names)))
    out["api/ddp.md"] = ("# The library in C++\n\n`#include \"lockstep/ddp.h\"` has all of it; how its parts work is in "
                         "[ddp.md](../docs/ddp.md), its rules in [semantics.md](../docs/semantics.md).\n\n"
                         "| header | declares |\n|---|---|\n" + rows)
    return out
