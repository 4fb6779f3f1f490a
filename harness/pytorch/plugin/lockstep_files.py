"""The parts that a user's file defines, as the subject python:FILE.py."""

import gc
import inspect
import os
import sys
import traceback
import types
from collections.abc import Mapping

from lockstep_module import listed, module_of
from lockstep_worlds import Refused, adopt, refuse_unknown
from torch.utils.data import DataLoader

# The parts that a file may define, and how each is called.
PARTS = {
    "wrap": ("module", "process_group", "options"),
    "after_backward": ("module",),
    "no_sync": ("module",),
    "join": ("module",),
    "sampler": ("length", "rank", "world_size", "options"),
    "sync_batch_norm": ("channels", "process_group", "options"),
}

# Options that change what a rank observes, with PyTorch's defaults: the others of wrap() are hints.
OF_WRAP = {"broadcast_buffers": True, "init_sync": True}
OF_SAMPLER = {"shuffle": True, "drop_last": False, "pad": True, "constant_memory": False}
OF_SYNC_BATCH_NORM = {"eps": 1e-5, "momentum": 0.1, "affine": True, "track_running_stats": True}

files = {}  # by path


def called(part):
    return f"{part}({', '.join(PARTS[part])})"


class UserFile:
    def __init__(self, path, module):
        self.name = os.path.basename(path)
        self.parts = {part: getattr(module, part) for part in PARTS if hasattr(module, part)}

    def lacks(self, part):
        return "" if part in self.parts else f"{self.name} defines no {called(part)}"

    def call(self, part, method, *arguments):
        """Returns the object that a part makes, which has to have this method."""
        if part not in self.parts:
            raise Refused(self.lacks(part))
        try:
            value = self.parts[part](*arguments)
        except NotImplementedError as error:
            raise Refused(f"{part} of {self.name} is not implemented for it{': ' if str(error) else ''}{error}") from error
        if not hasattr(value, method):
            raise TypeError(f"{called(part)} of {self.name} returned {type(value).__name__}, which has no {method}")
        return value

    def what_is_wrong(self):
        if not self.parts:
            return f"{self.name} defines none of {', '.join(map(called, PARTS))}"
        for name, part in self.parts.items():
            try:
                inspect.signature(part).bind(*PARTS[name])
            except TypeError as error:
                return f"{self.name}: {name} cannot be called as {called(name)}: {error}"
        return ""


class Options(Mapping):
    """The options that a case wants. A part that does not read an option cannot follow it."""

    def __init__(self, values):
        self.values_, self.read = values, set()

    def __getitem__(self, name):
        self.read.add(name)
        return self.values_[name]

    def __iter__(self):
        return iter(self.values_)

    def __len__(self):
        return len(self.values_)

    def refuse_unread(self, file, part, defaults):
        for name, default in defaults.items():
            if name not in self.read and self.values_.get(name, default) != default:
                raise Refused(f"{part} of {file.name} does not read options[\"{name}\"]")


def line_of(error, path):
    """Where in the file it was raised: ", line 3", or nothing."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}" if error.filename == path else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f", line {lines[-1]}" if lines else ""


def thread_count():
    return len(os.listdir("/proc/self/task"))


def open_file(path):
    """Runs the file, once. Returns what is wrong with it, in a sentence; nothing: it is a subject."""
    name = os.path.basename(path)
    module = types.ModuleType(path)
    module.__file__ = path
    sys.modules[path] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    threads = thread_count()
    try:
        with open(path, "rb") as file:
            exec(compile(file.read(), path, "exec"), module.__dict__)  # noqa: S102
    except OSError as error:
        if not error.__traceback__.tb_next:
            return f"{path} cannot be read: {error.strerror}"
        return f"{name}{line_of(error, path)}: {type(error).__name__}: {error}"
    except BaseException as error:  # noqa: BLE001: whatever the file does
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        return f"{name}{line_of(error, path)}: {type(error).__name__}{': ' if text else ''}{text}"
    if thread_count() > threads:
        return f"{name} starts a thread as it is imported: ranks are forked from a process with one thread"
    files[path] = UserFile(path, module)
    gc.collect()
    gc.freeze()
    return files[path].what_is_wrong()


def lacks(path, part):
    return files[path].lacks(part)


class FileWrapped:
    def __init__(self, path, call, parameters, buffers, group, options):
        self.file, self.group = files[path], group
        for what, value in (("communication hooks", options["hook"]), ("ignored names", options["ignored"]),
                            ("delayed reductions", options["delayed"] or options["delayed_until"])):
            if value:
                raise Refused(f"{self.file.name} is not asked for {what}")
        refuse_unknown(options["keywords"])
        adopt(group)
        self.module = module_of(call, parameters, buffers, options["sparse"])
        given = Options(options["keywords"])
        self.wrapped = self.file.call("wrap", "__call__", self.module, group, given)
        given.refuse_unread(self.file, "wrap", OF_WRAP)

    def set_buffers(self, buffers):
        self.module.hold("_buffers", buffers)

    def forward(self, x, shape, training):
        adopt(self.group)
        if self.module.training != training:
            self.module.train(training)
            if hasattr(self.wrapped, "train"):
                self.wrapped.train(training)
        self.module._shape = shape
        return listed(self.wrapped(x), shape)

    def after_backward(self):
        if "after_backward" in self.file.parts:
            adopt(self.group)
            self.file.parts["after_backward"](self.wrapped)

    def no_sync(self):
        return self.file.call("no_sync", "__exit__", self.wrapped)

    def join(self, kind, _):  # never with an optimizer: a file defines none
        if kind != "world":
            raise Refused(f"{self.file.name} is asked for joins that average over the whole world alone")
        adopt(self.group)
        return self.file.call("join", "__exit__", self.wrapped)

    def update_process_group(self, group):
        raise Refused(f"{self.file.name} is not asked to change its group")

    def finish(self):
        pass

    def layout(self):
        return []

    def has_rebuilt(self):
        return False


class FileSharded:
    def __init__(self, path, length, rank, world_size, options):
        self.file = files[path]
        self.given = Options({name: options[name] for name in (*OF_SAMPLER, "seed")})
        self.sampler = self.file.call("sampler", "__iter__", length, rank, world_size, self.given)
        self.batches = None
        if options["through_loader"]:
            self.batches = DataLoader(range(length), batch_size=options["batch_size"], sampler=self.sampler)

    def set_epoch(self, epoch):
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def draw(self):
        batches = [self.sampler] if self.batches is None else self.batches
        indices = [int(index) for batch in batches for index in batch]
        self.given.refuse_unread(self.file, "sampler", OF_SAMPLER)
        return indices


class FileLayer:
    def __init__(self, path, channels, group, options):
        self.file, self.group = files[path], group
        adopt(group)
        given = Options({**options, "momentum": None if options["momentum"] < 0 else options["momentum"]})
        self.layer = self.file.call("sync_batch_norm", "named_parameters", channels, group, given)
        given.refuse_unread(self.file, "sync_batch_norm", OF_SYNC_BATCH_NORM)

    def parameters(self):
        return list(self.layer.named_parameters())

    def buffers(self):
        return list(self.layer.named_buffers())

    def forward(self, x, training):
        adopt(self.group)
        self.layer.train(training)
        return self.layer(x)
