"""How recording begins and ends, in this process and in those that it starts."""
import atexit
import builtins
import functools
import importlib.machinery
import io
import multiprocessing.process
import multiprocessing.util
import os
import platform
import runpy
import sys
import types
import zipfile

from . import _state
from ._history import History, folder_of_attempt, told

RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
WORLD_VARIABLES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")


def clock():
    """Names this machine since it was started: ranks with one name can compare their times."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return platform.node()


def whole_number(*variables, default=0):
    """The value of the first variable that is set."""
    name = next((each for each in variables if os.environ.get(each)), None)
    text = os.environ[name] if name else str(default)
    if not text.isascii() or not text.isdigit():
        raise SystemExit("lockstep_recorder: %s is '%s'; expected a whole number" % (name, text))
    return int(text)


def start(folder=None, program=None, rank=None, world=None):
    """Records from here on, into `folder` or where LOCKSTEP_RECORD says; does nothing where neither is given. Where rank and
    world are not given they are the launcher's (torchrun's variables, or those of Slurm or Open MPI), or else those of the
    process group that the program makes."""
    folder = folder or os.environ.get("LOCKSTEP_RECORD")
    if _state.recorder or not folder:
        return
    # A process of `multiprocessing` has the variables of a rank that started it, to load data say, and is a rank if it makes a group.
    is_started = multiprocessing.process.parent_process() is not None or \
        getattr(multiprocessing.process.current_process(), "_inheriting", False)
    is_launched = not is_started and any(os.environ.get(each) for each in RANK_VARIABLES)
    if rank is None and is_launched:
        rank = whole_number(*RANK_VARIABLES)
    if world is None:
        world = whole_number(*WORLD_VARIABLES, default=1)
    numbers = whole_number("LOCKSTEP_RECORD_VALUES"), whole_number("LOCKSTEP_RECORD_PERTURB")
    try:
        begin(folder, program or sys.argv[0], *numbers)
    except Exception as error:  # Such as a release of PyTorch that it does not know, or none.
        print("lockstep_recorder: nothing is recorded: %s" % told(error), file=sys.stderr)
        if _state.recorder:
            _state.recorder.history.has_ended = True
        return
    try:
        if rank is not None:
            _state.recorder.history.open(rank, world)
    except FileExistsError as error:  # `judge` would take the older run for this one.
        raise SystemExit(str(error)) from None
    except OSError as error:
        print("%s; this process is not recorded" % error, file=sys.stderr)
    sys.excepthook, sys.exit = functools.partial(threw, sys.excepthook), functools.partial(exited, sys.exit)
    os._exit = functools.partial(left, os._exit)
    multiprocessing.process.BaseProcess.start = started(multiprocessing.process.BaseProcess.start)


def begin(*given):
    """Makes the recorder of this process, to which another may have been forked along."""
    import torch.distributed
    from ._install import install
    from ._records import Recorder
    folder, program, values, perturbed = given
    is_first = _state.recorder is None
    about = {"perturbed": perturbed} if perturbed else {}
    target = os.path.join(folder, "perturbed-%d" % perturbed) if perturbed else folder
    if "TORCHELASTIC_RESTART_COUNT" in os.environ:  # torchrun may start the ranks again, and the files of the first attempt are there.
        about["agent"] = os.getppid()
        target = folder_of_attempt(target, whole_number("TORCHELASTIC_RESTART_COUNT"), whole_number(*RANK_VARIABLES),
                                   whole_number(*WORLD_VARIABLES, default=1), about["agent"])
    history = History(target, writer="lockstep_recorder.py", torch=str(torch.__version__), clock=clock(),
                      program=os.path.basename(program), **about)
    _state.recorder = Recorder(history, given)
    if is_first:
        install()
    if multiprocessing.process.parent_process() is None:
        atexit.register(ended)
    else:
        multiprocessing.util.Finalize(None, ended, exitpriority=-100)  # Such a process ends without atexit's functions.


def watch(model):
    """Records a model whose gradients the program averages without DistributedDataParallel: its parameters, and gradients as
    each update takes them. Returns it. Does nothing where nothing is recorded."""
    if _state.recorder and _state.recorder.is_on():
        from ._hooks import quietly
        quietly("a watched model", _state.recorder.training.watch, model)
    return model


def threw(before, kind, error, trace):
    record_exception(error)
    before(kind, error, trace)


def record_exception(error):
    from ._hooks import quietly
    quietly("the end", _state.recorder.by_hand.tell_held)
    quietly("an exception", _state.recorder.history.end, "threw", told(error))


def exited(original, *code):
    _state.recorder.exit_code = _state.recorder.history.count, code[0] if code else None
    original(*code)


def left(original, *code, **named):
    """The program ends at once, as many do where a backend would hang in a destructor."""
    from ._hooks import quietly
    status = next(iter((*code, *named.values())), None)
    quietly("the end", _state.recorder.by_hand.tell_held)
    quietly("an ending", _state.recorder.history.end, *(("returned",) if status == 0 else ("exited", str(status))))
    original(*code, **named)


def ended():
    """Ends the history as the process ends. In a process of `multiprocessing` an exception is still being raised here."""
    if _state.recorder is None:  # It could not begin.
        return
    _state.recorder.by_hand.last.forget()  # What lives until here is there, and Python frees the rest as it ends.
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit) and error.__context__ is not None:
        error = error.__context__  # What torch.multiprocessing.spawn hands to the parent.
    code = error.code if isinstance(error, SystemExit) else None
    if error is None and _state.recorder.exit_code and _state.recorder.exit_code[0] == _state.recorder.history.count:
        code = _state.recorder.exit_code[1]
    if error is not None and not isinstance(error, SystemExit):
        record_exception(error)
    elif code not in (None, 0, False):
        from ._hooks import quietly
        quietly("the end", _state.recorder.by_hand.tell_held)
        _state.recorder.history.end("exited", str(code))
    else:
        from ._hooks import quietly
        quietly("the end", _state.recorder.by_hand.record_end)
    _state.recorder.history.end("returned")


class Spawned:
    """The target of a process that a program starts which is no rank itself: the process may be one."""

    def __init__(self, target, given):
        self.target, self.given = target, given

    def __call__(self, *args, **kwargs):
        if "torch" in sys.modules and not (_state.recorder and _state.recorder.is_on()):
            begin(*self.given)
        return self.target(*args, **kwargs)


def started(original):
    @functools.wraps(original)
    def function(process):
        target = process._target
        is_helper = getattr(target, "__module__", "").startswith(("torch.utils.data", "multiprocessing", "concurrent"))
        if target is not None and not is_helper and _state.recorder.is_on() and _state.recorder.history.path is None:
            process._target = Spawned(target, _state.recorder.given)
        return original(process)
    return function


def run(path):
    """Runs a program as Python does: what it holds lives until the interpreter ends. runpy would let go of that here, where
    the destructor of a process group waits, with Python's lock, for a thread that waits for the lock."""
    if not os.path.isfile(path) or zipfile.is_zipfile(path):
        return runpy.run_path(path, run_name="__main__")
    path = os.path.abspath(path)
    main_module = sys.modules["__main__"] = types.ModuleType("__main__")
    main_module.__file__, main_module.__builtins__, main_module.__cached__ = path, builtins, None
    main_module.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec")
    exec(code, vars(main_module))


def run_module(name):
    """Runs a module as `python -m` does, by the function that does it there."""
    sys.modules["__main__"] = types.ModuleType("__main__")
    runpy._run_module_as_main(name)


def main(arguments):
    folder = None
    if arguments[:1] == ["--record"]:
        folder, arguments = (arguments[1:2] or [None])[0], arguments[2:]
    is_module = arguments[:1] == ["-m"]
    if is_module:
        arguments = arguments[1:]
    if not arguments or not (folder or os.environ.get("LOCKSTEP_RECORD")):
        sys.exit("usage: python -m lockstep_recorder --record FOLDER PROGRAM.py [ARGUMENTS]...\n"
                 "       python -m lockstep_recorder --record FOLDER -m MODULE [ARGUMENTS]...\n"
                 "LOCKSTEP_RECORD names the folder in place of --record")
    sys.argv = arguments
    if not is_module:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    start(folder, arguments[0])
    try:
        (run_module if is_module else run)(arguments[0])
    except BaseException:
        ended()
        raise
