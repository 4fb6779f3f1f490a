"""The distributed tests that the package accelerate contains and runs without GPUs, in worlds of Lockstep. Its own way is
debug_launcher(test_ops.main), and so on.

    pytest test_accelerate.py --lockstep-tier warm
"""
import inspect
import os

os.environ["ACCELERATE_USE_CPU"] = "yes"

import accelerate.state
import pytest
from accelerate import Accelerator, PartialState
from accelerate.test_utils.scripts import test_ops, test_script, test_sync
from accelerate.utils import set_seed

import lockstep

SCRIPTS = {script.__name__.rpartition(".")[2]: script for script in (test_ops, test_script, test_sync)}
STATES = accelerate.state.PartialState, accelerate.state.AcceleratorState, accelerate.state.GradientState
for each in STATES:
    each._shared_state = accelerate.state.ThreadLocalSharedDict()  # As on TPUs: simulated ranks are threads.


def functions_of(script):
    """The script's main(), and what that calls with nothing, the state or the accelerator."""
    called = inspect.getsource(script.main)
    return [name for name, value in vars(script).items() if inspect.isfunction(value) and value.__module__ == script.__name__ and
            any(f"{name}({given})" in called for given in ("", "state", "accelerator"))]


@lockstep.world(2)
@pytest.mark.parametrize("name", [f"{script}.{name}" for script in SCRIPTS for name in functions_of(SCRIPTS[script])
                                  if name != "test_noop_sync"])  # That is for one process.
def test_accelerate(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for each in STATES:
        each._shared_state.clear()  # Of kept ranks' last test.
    set_seed(0)  # Their launcher's ranks begin with the same numbers.
    script, _, function = name.partition(".")
    function, given = getattr(SCRIPTS[script], function), {"accelerator": Accelerator(), "state": PartialState()}
    function(*(given[each] for each in given if each in inspect.signature(function).parameters))
