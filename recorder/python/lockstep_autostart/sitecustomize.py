"""Has each process of Python that imports PyTorch record itself: `lockstep record` puts this folder before all others in
PYTHONPATH, and Python imports a module of this name as it starts. The program is not changed by a line."""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
RECORDED_BY = "LOCKSTEP_RECORDED_BY"  # In a rank's environment, and so in that of what it starts, which is no rank.


def import_next():
    """The module of this name that is Debian's, the environment's or the program's own."""
    spec = importlib.machinery.PathFinder.find_spec(
        "sitecustomize", [each for each in sys.path if os.path.abspath(each) != FOLDER])
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def start():
    if "lockstep_recorder" in sys.modules:
        return  # The program starts it itself.
    folder = os.path.join(os.path.dirname(FOLDER), "lockstep_recorder")  # Which need not be in the program's path.
    spec = importlib.util.spec_from_file_location("lockstep_recorder", os.path.join(folder, "__init__.py"),
                                                  submodule_search_locations=[folder])
    recorder = importlib.util.module_from_spec(spec)
    sys.modules["lockstep_recorder"] = recorder
    spec.loader.exec_module(recorder)
    if any(os.environ.get(each) for each in recorder.RANK_VARIABLES):
        os.environ[RECORDED_BY] = str(os.getpid())
    recorder.start()


class BehindTorch(importlib.abc.MetaPathFinder):
    """Finds nothing but torch, once, by those who find it otherwise."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                del spec.loader.exec_module
                start()
            spec.loader.exec_module = exec_module
        return spec


if os.environ.get("LOCKSTEP_RECORD") and RECORDED_BY not in os.environ:
    sys.meta_path.insert(0, BehindTorch())
import_next()
