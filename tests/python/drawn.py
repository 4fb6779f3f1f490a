"""Mistakes at drawn points of drawn tests, with what the report says of each: kind, rank and place.

A test is a number of steps that all ranks take, and a function `plant` that one rank calls somewhere between them.
"""

import dataclasses
import random

import planted

PREFACE = planted.PREFACE + '''
import contextlib, functools, gc, logging, queue, select, socket
logging.getLogger().setLevel(logging.WARNING)

class Calling(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self): self.function()

class Planted(Exception): pass

def backward_through(function):
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda gradient: function())
    (x * 3).sum().backward()

def closed_over(function):
    yield
    function()
'''
# Each step's code, and the collectives that the report knows it by, all of the whole world.
STEPS = [
    ("dist.all_reduce(torch.ones(3))", ["allreduce"]),
    ("dist.broadcast(torch.ones(2, dtype=torch.float64), 0)", ["broadcast"]),
    ("dist.all_gather([torch.ones(2) for _ in range(world_size)], torch.ones(2))", ["allgather"]),
    ("dist.barrier()", ["barrier"]),
    ("dist.reduce(torch.ones(4), world_size - 1)", ["reduce"]),
    ("dist.all_reduce(torch.ones(5), async_op=True).wait()", ["allreduce"]),
    ("(ddp := model())(torch.ones(3, 2)).sum().backward()", ["ddp_construction", "ddp_backward"]),
    ("torch.randn(9, 9) @ torch.randn(9, 9)", []),
    ("subprocess.run(['true'], check=True)", []),
]
CALLS = ["plant()", "[plant() for _ in range(1)]", "with torch.no_grad(): plant()", "max([1], key=lambda _: plant() or 0)", "Calling(plant)()",
         "functools.partial(plant)()", "backward_through(plant)", "list(closed_over(plant))", "for turn in range(3): turn == 1 and plant()",
         "with contextlib.ExitStack() as stack: stack.callback(plant)"]
THROWS = [
    ("raise ValueError('as drawn')", "ValueError: as drawn"), ("raise Planted", "Planted"), ("raise Stubborn(1, 2)", "Stubborn: cannot be made again"),
    ("assert rank < 0, 'never'", "AssertionError: never"), ("{}['lacking']", "KeyError: 'lacking'"), ("sys.exit(3)", "SystemExit: 3"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"), ("torch.ones(2) @ torch.ones(3)", "RuntimeError: "), ("1 // 0", "ZeroDivisionError: "),
    ("raise OSError(28, 'No space left')", "OSError: .*No space left"), ("deep(0)", "RecursionError: "), ("pytest.fail('by hand')", "Failed: by hand"),
    ("raise ValueError('as drawn') from KeyError(1)", "ValueError: as drawn"), ("raise Exception('two\\nlines')", "Exception: two"),
    ("dist.broadcast('no tensor', 0)", "(TypeError|ValueError|AttributeError): "), ("raise MemoryError", "MemoryError"),
    ("open('/nowhere/at/all')", "FileNotFoundError: .*/nowhere"), ("raise UnicodeError('ü€')", "UnicodeError: ü€"),
]
# All of these sleep, in the frame of the plant.
HANGS = ["time.sleep(1000)", "threading.Event().wait()", "queue.Queue().get()", "subprocess.run(['sleep', '1000'])", "select.select([], [], [], 1000)",
         "os.read(os.pipe()[0], 1)", "(waits := threading.Condition()).acquire() and waits.wait()",
         "(lock := threading.Lock()).acquire() and lock.acquire()", "while True: pass", "sum(iter(int, 1))"]
KILLS = [("os.kill(os.getpid(), signal.SIGKILL)", "died by SIGKILL", False), ("os.kill(os.getpid(), signal.SIGTERM)", "died by SIGTERM", False),
         ("os.kill(os.getpid(), signal.SIGHUP)", "died by SIGHUP", False), ("os._exit(5)", "ended its process with exit status 5", False),
         ("os._exit(0)", "ended its process with exit status 0", False), ("ctypes.string_at(0)", "died by SIGSEGV", True), ("os.abort()", "died by SIGABRT", True),
         ("signal.raise_signal(signal.SIGBUS)", "died by SIGBUS", True), ("signal.raise_signal(signal.SIGILL)", "died by SIGILL", True)]
# Each entry: a statement that leaves something, what the report of kept ranks says of it, and whether the ranks are kept.
LEAKS = [
    ("threading.Thread(target=time.sleep, args=(1000,), daemon=True, name='idler').start()", "the thread idler", "replaced"),
    ("threading.Timer(1000, print).start()", "the thread Thread-\\d+", "replaced"),
    ("subprocess.Popen(['sleep', '1000'])", "the process \\d+", "replaced"),
    ("multiprocessing.get_context('fork').Process(target=time.sleep, args=(1000,), daemon=True).start()", "the process \\d+", "replaced"),
    ("os.fork() or time.sleep(1000)", "the process \\d+", "replaced"),
    ("globals().update(kept=open('/etc/hostname'))", "the file /etc/hostname", "replaced"),
    ("os.pipe()", "the file pipe:", "replaced"),
    ("os.open(os.path.join(os.getcwd(), f'left{rank}'), os.O_CREAT | os.O_WRONLY)", "the file .*left\\d", "replaced"),
    ("os.environ.update(FOO='1')", "the environment variable FOO", "set right"),
    ("os.environ.pop('PATH')", "the environment variable PATH", "set right"),
    ("os.chdir('/')", "the working folder, /", "set right"),
    ("sys.path.insert(0, '/nowhere')", "sys.path, ", "set right"),
    ("torch.set_default_dtype(torch.float64)", "default dtype, torch.float64", "set right"),
    ("torch.set_grad_enabled(False)", "grad mode, False", "set right"),
    ("torch.set_num_threads(2)", "number of threads, 2", "set right"),
    ("torch.autograd.set_detect_anomaly(True)", "anomaly detection, True", "set right"),
    ("torch.set_default_device('meta')", "default device, meta", "set right"),
    ("signal.setitimer(signal.ITIMER_REAL, 1000)", "a timer that runs", "set right"),
    ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "the handler of SIGUSR1", "set right"),
    ("logging.getLogger().setLevel(logging.DEBUG)", "the root logger's level", "set right"),
    ("logging.getLogger().addHandler(logging.NullHandler())", "the root logger's handlers", "set right"),
    ("sys.setrecursionlimit(5000)", "recursion limit, 5000", "set right"),
    ("gc.disable()", "garbage collection, False", "set right"),
    ("socket.setdefaulttimeout(3)", "timeout of sockets, 3", "set right"),
    ("os.umask(0o777)", "umask, 511", "set right"),
    ("globals().update(work=dist.all_reduce(torch.ones(3), async_op=True))", "the default group does not work any more", "replaced"),
    ("globals().update(work=dist.isend(torch.ones(1), (rank + 1) % world_size))", "the default group does not work any more", "replaced"),
    ("dist.destroy_process_group()", "no default group", "replaced"),
]
ONLY_AT_THE_END = "dist.all_reduce", "dist.isend", "dist.destroy", "torch.set_default_device", "torch.set_grad_enabled", "torch.set_default_dtype"
# Each simulated rank has its own, which ends with it.
OWN_OF_SIMULATED = "os.environ", "torch.set_num_threads", "torch.set_default_device", "torch.set_default_dtype", "torch.set_grad_enabled", "addHandler", "update(work=", "dist.destroy"
MAIN_THREAD = "signal.signal", "signal.setitimer"  # Simulated ranks are other threads.
COUNTS = {"throw": 55, "hang": 35, "early": 25, "recv": 10, "kill": 45, "leak": 60}


@dataclasses.dataclass
class Case:
    """A drawn test. `lines` are its body's; those that a report names are marked by comments."""

    name: str
    kind: str
    size: int
    rank: int
    lines: list
    waits_in: tuple  # The collective that the others wait in: its kind and its number.
    last: bool  # The rank has issued one before.
    says: str = ""
    has_stack: bool = False
    first: int = 0  # The line of the file.

    def line(self, mark):
        return self.first + next(number for number, line in enumerate(self.lines) if mark in line)

    def expected(self, tier):
        """The patterns in the report of this test in this tier, on the rank, its place, and the others."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        here, what = f"line {self.line('# planted')} in plant", self.kind
        among, alone = f"rank {self.rank} of {self.size}", ", ".join(map(str, others))
        all_ranks = ", ".join(map(str, range(self.size)))
        op, number = self.waits_in
        # DistributedDataParallel's have no place of their own, and ranks may be through a broadcast that not all have come to.
        place = "" if op.startswith("ddp") else f" at \\S+:{self.line('# next')} in test_{self.name}"
        waits = "waits in .*" if op in ("broadcast", "reduce") else f"waits in {op}(?: of [^,]+)?, number {number} of the world{place}"
        waiting = [f"rank {rank}: {waits}, to which ranks? .*{self.rank}.* did not come" for rank in others]
        before = f"its last collective is .* number {number - 1} of the world" if self.last else ""
        if what == "throw":
            return [f"{among} failed", f"rank {self.rank}: failed: {self.says}", f":{self.line('# planted')}: "] + (waiting if tier != "sim" else [])
        if what == "kill":
            return [f"{among} {self.says}", f"rank {self.rank}: {self.says}.*{before}"] + ([here, f"stack of rank {self.rank}"] if self.has_stack else [])
        if what == "early":
            hung = f"ranks? {alone} of {self.size}"
            return waiting + [f"rank {self.rank}: passed", f"{hung} waits? for ever" if tier == "sim" else f"{hung} did not end within 1 s of rank {self.rank}"]
        if what == "recv":
            return [f"rank {self.rank}: waits in recv with rank {self.says} at \\S+:{self.line('# planted')} in plant",
                    f"ranks {all_ranks} of {self.size} " + ("wait for ever" if tier == "sim" else "did not end within 4 s")] + waiting
        assert what == "hang"
        if tier == "sim":
            return [f"{among} did not end within 4 s, and the others wait", here]
        return [f"ranks {all_ranks} of {self.size} did not end within 4 s", f"stack of rank {self.rank}", here,
                f"rank {self.rank}: runs" + (f"; {before}" if self.last else ", and has issued no collective")] + waiting


def draw(number, kind, choices):
    size, steps = choices.choice((2, 3, 4)), [choices.choice(STEPS) for _ in range(choices.randrange(1, 6))]
    rank, at, call = choices.randrange(size), choices.randrange(len(steps) + 1), choices.choice(CALLS)
    case = Case(f"{kind}{number}", kind, size, rank, [], ("barrier", 0), False)
    if kind == "throw":
        statement, case.says = choices.choice(THROWS)
    elif kind == "kill":
        statement, case.says, case.has_stack = choices.choice(KILLS)
    elif kind == "hang":
        statement = choices.choice(HANGS)
    elif kind == "recv":
        case.says = (rank + 1) % size
        statement = f"dist.recv(torch.ones(1), {case.says})"
    elif kind == "leak":
        statement, case.says, end = choices.choice(LEAKS)
        case.says += f"; the kept ranks were {end}" if case.says.endswith("any more") else f".* on rank {rank}.*; they were {end}"
        at, call = len(steps) if statement.startswith(ONLY_AT_THE_END) or "work=" in statement else at, "plant()"
    else:
        statement, call = "pass", "return plant()"
    steps.append(("dist.barrier()", ["barrier"]))
    if kind == "leak":
        at, steps = (len(steps), steps) if at == len(steps) - 1 else (at, steps)
    issued = [each for _, issues in steps[:at] for each in issues]
    following = next((position for position in range(at, len(steps)) if steps[position][1]), None)
    case.last = bool(issued)
    case.waits_in = (steps[following][1][0] if following is not None else "", len(issued) + 1)
    case.lines = ["def plant():", f"    {statement}  # planted"]
    for position, (code, _) in enumerate(steps):
        if position == at:
            case.lines += [f"if rank == {rank}:", f"    {call}"]
        case.lines.append(code + ("  # next" if position == following else ""))
    if at == len(steps):
        case.lines += [f"if rank == {rank}:", f"    {call}"]
    return case


def drawn(count, seed):
    """As many cases of each kind as its share."""
    choices = random.Random(seed)
    kinds = [kind for kind, share in COUNTS.items() for _ in range(share)]
    if count < len(kinds):
        kinds = choices.sample(kinds, count)
    return [draw(number, kind, choices) for number, kind in enumerate(kinds)]


def file_of(cases, tier):
    """A file in which a test that must pass follows each of these."""
    lines = PREFACE.splitlines()
    after = planted.AFTER.strip()
    if tier == "sim":
        after = after.replace(" and threading.active_count() == 1", "")
    for case in cases:
        timeout = 4 if case.kind in ("hang", "recv") else None
        lines += [f"@lockstep.world({case.size}, timeout={timeout})", f"def test_{case.name}(rank, world_size):"]
        case.first = len(lines) + 1
        lines += ["    " + line for line in case.lines]
        lines += [f"@lockstep.world({case.size})", f"def test_after_{case.name}(rank, world_size):", *("    " + line for line in after.splitlines())]
    return "\n".join(lines) + "\n"
