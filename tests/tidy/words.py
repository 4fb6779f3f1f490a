"""Words that this tree refuses, in comments and in names, each with what to write instead."""

import re

from tree import Problem, is_under, line_of

# Each refused pattern (whole words; \w* is any part of a name) -> what to write.
REFUSED = {
    r"whoever|whosoever|as it were": "a subject: 'a rank that ...', 'every rank that ...'",
    r"roll[ _]calls?|RollCall\w*": "join_sync; of a verdict: rank summary",
    r"stands? in for|stood in|stand_in\w*|StandingIn\w*": "shadow: a rank that shadows its peers' collectives",
    r"Standing\w*|standing_": "RankAndSize, GradientArrival, KeptWorld, WarmRank or ThreadEnd",
    r"meeting[ _]points?|MeetingPoint|meeting_|came together|CameTogether|come_together|Visitor|(?:has|two runs) me?et (?:here|at)": "rendezvous, RendezvousAddress, LaunchedWorld",
    r"obstacles? to|find_obstacle|obstacle_in\w*|complaints?": "validation_error",
    r"Statement|Declaration": "Property, RankDescription",
    r"LongWait\w*|long_wait\w*": "Watchdog",
    r"Abroad|abroad|Launchees|launchees": "remote, LaunchedProcesses",
    r"seats?|seated|seating|DeviceSeat": "device assignment",
    r"Hello": "Handshake",
    r"Gathering\w*": "ForkedRendezvous: a gather is a collective",
    r"Parcel|parcels?": "message",
    r"Crew|crew": "RankThreads",
    r"Partings?|partings?|FirstParting|\w*_parting(?:_of)?": "DivergencePoints, where ranks diverge",
    r"look_again\w*|kCasesPerSecondLook": "replay_for_determinism, kReplayEvery",
    r"Blows|blows": "PlannedFailures",
    r"[Pp]lays?|[Pp]lay(?:ed|ing|ers?)|Play[A-Z]\w*|\w*_play(?:s|ed|ing)?|play(?:s|ed|ing)?_(?!a_game)\w*|kPlayed": "run: a case is run, CaseRequest, CaseRun, RankRun",
    r"NcclPlan|Planned|plan_(?:text|loading|of|json)|(?:run|out|in) plan": "bucket plan alone is a plan: jobs, --dry-run, ResolvedOptions",
    r"objections?": "validation_error, device_error",
    r"[Pp]rogrammes?|Programme\w*": "ProgramSpec, a program's steps",
    r"\w*_told\w*|told_\w*|Told|(?:is|are|was|were|be)\s+told": "reported, received: the field's verb",
    r"goes on|by itself": "continues; or say alone, separately",
    r"tell_(?:launcher|github|environment|what_runs)|tells_times|error_told_in|kTelling|unheard|heard of": "report, receive, peer_error: the field's verb",
}
OURS = ("ddp", "train", "reference", "harness", "recorder", "scenarios", "reports", "demos", "cli", "bench", "examples", "python", "tests", "docs")
# Tests of these words, pages of decisions as they were made, and what programs wrote.
LEFT = ("tests/tidy", "docs/decisions", "docs/findings", "tests/python/in_suites")
# Folders whose texts a user reads. Claims, settings of demonstrations and what golden files hold keep their words.
TEXTS = ("ddp", "train", "reference", "harness", "recorder", "reports", "cli", "bench", "examples", "python", "docs")
# Names in headers of ddp/ and harness/; upstream's stay in .cpp files.
NO_NAMES = re.compile(r"(?<![a-zA-Z])(?:nodes?|master|worker_?id|nproc)(?![a-z])")
# The name of a test that says how something was told, and not what was reported.
TESTS = re.compile(r"\b(?:TEST\w*\(\w+,\s*|def test_|def assert_)(\w*(?:Told(?![a-z])|(?<![a-z])told(?![a-z])|Hears?(?![a-z])|(?<![a-z])hears?(?![a-z]))\w*)")

# A comment or a docstring that begins so is half a sentence: it has no subject.
HEADLESS = re.compile(r"^[ ]*(?://[ ]|#[ ]|r?\"\"\")(?:Who|What|Whose|Of|Whoever|Those that|That)\b")


def headless(text, mark):
    """Lines that begin a comment, or a docstring, without a subject."""
    before = ""
    for number, line in enumerate(text.split("\n"), 1):
        if HEADLESS.match(line) and not before.lstrip().startswith(mark):
            yield number
        before = line if line.strip() != mark and not line.startswith("#!") else ""


# A sentence that opens so: half of one, or one whose subject is a clause.
OPENS_WITHOUT = re.compile(r"[`'\"(]*(?:Who|Whom|Whose|What|Of|Not|Which|Whether|Whoever|Those that|Nor)\b")
COMMENT = re.compile(r"^[ ]*(?://|#)(?!!)[ ]?(.*)|^.*[;{},)] +// (.*)")
SHARE_MOST, SENTENCES_LEAST = 0.015, 60
SHARED = ("ddp", "train", "reference", "harness", "recorder", "reports", "cli", "bench", "examples", "tests", "scenarios", "demos")


def sentences(text):
    """Those of comments."""
    block = ""
    for line in text.split("\n") + [""]:
        said = COMMENT.match(line)
        words_of_line = (said[1] or said[2] or "").strip() if said else ""
        if words_of_line and not (said[2] and block):
            block += " " + words_of_line
            continue
        yield from re.split(r"(?<=[.:;!?])\s+(?=[A-Z`])", block.strip()) if block else ()
        block = words_of_line


def subjects(tree):
    """A few sentences without a subject are notes; many make a reader guess."""
    folders = {}
    for path in tree.paths:
        if (path in tree.cpp or path.endswith(".py")) and is_under(path, SHARED) and not is_under(path, ("tests/tidy", "tests/mutants")):
            folder = "/".join(path.split("/")[:2 if path.startswith(("harness/", "tests/")) else 1])
            folders.setdefault(folder, []).extend(sentences(tree.text[path]))
    for folder, said in folders.items():
        without = sum(bool(OPENS_WITHOUT.match(each)) for each in said)
        if len(said) >= SENTENCES_LEAST and without > SHARE_MOST * len(said):
            yield Problem(folder, 1, f"{without} of {len(said)} sentences of comments have no subject; at most {SHARE_MOST:.1%}")


def words(tree):
    """One word for one thing, and where the field has one, the field's."""
    for path in tree.paths:
        if is_under(path, OURS) and (path in tree.cpp or path.endswith(".py")):
            for line in headless(tree.text[path], "//" if path in tree.cpp else "#"):
                yield Problem(path, line, "a comment without a subject: begin with the thing or with a verb")
        if is_under(path, ("tests",)) and not is_under(path, ("tests/tidy", "tests/python")):
            for match in TESTS.finditer(tree.text[path]):
                yield Problem(path, line_of(tree.text[path], match.start()), f"'{match[1]}' is refused: write reported, received")
    for path in tree.paths:
        if not is_under(path, OURS) or is_under(path, LEFT) or not path.endswith((".h", ".cpp", ".py", ".md")):
            continue
        text = tree.text[path]
        if not is_under(path, TEXTS):
            text = re.sub(r'"(?:[^"\\\n]|\\.)*"', lambda found: " " * len(found.group()), text)
        for word, instead in REFUSED.items():
            for match in re.finditer(rf"(?<!\w)(?:{word})(?!\w)", text):
                yield Problem(path, line_of(text, match.start()), f"'{match.group()}' is refused: write {instead}")
        if path in tree.headers and is_under(path, ("ddp", "train", "harness")):
            code = re.sub(r"#[^\n]*", "", tree.code(path))
            for match in NO_NAMES.finditer(code):
                yield Problem(path, line_of(code, match.start()), f"'{match.group()}' is no word of this house")
