"""Loads the whole program and runs it in this process: `python _host.py LIBRARY NAME ARGUMENTS`.

Started by the program `lockstep` alone (cli/lockstep_files.cpp), which has it loaded before all other libraries.
"""
import sys

del sys.path[0]  # This folder, whose files are no modules of others.

import ctypes
import importlib.util
import os
import signal


def put_first(variable: str, path: str) -> None:
    before = os.environ.get(variable)
    os.environ[variable] = f"{path}:{before}" if before else path


def take_first(variable: str) -> None:
    rest = os.environ.pop(variable).partition(":")[2]
    if rest:
        os.environ[variable] = rest


def main() -> None:
    """Never returns: the program ends the process."""
    library, *arguments = sys.argv[1:]
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        sys.exit(f"lockstep: {sys.executable} finds no PyTorch, whose libraries this command needs")
    torch = os.path.dirname(found.origin)
    if os.environ.get("LD_PRELOAD", "").partition(":")[0] != library:  # PyTorch is in another folder than this package.
        put_first("LD_LIBRARY_PATH", os.path.join(torch, "lib"))
        put_first("LD_PRELOAD", library)
        os.execv(sys.executable, [sys.executable, __file__, *sys.argv[1:]])
    # Every process that the program starts has the environment that it was called with.
    take_first("LD_PRELOAD")
    if not os.path.exists(os.path.join(os.path.dirname(library), "..", "..", "torch", "lib")):
        take_first("LD_LIBRARY_PATH")
    del os.environ["LOCKSTEP_HOST"]
    if os.environ["PYTHONHASHSEED"] == "0":
        del os.environ["PYTHONHASHSEED"]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # The program has a way of its own.
    words = (ctypes.c_char_p * (len(arguments) + 1))(*map(os.fsencode, arguments), None)
    ctypes.CDLL(library).lockstep_main(len(arguments), words, os.fsencode(sys.prefix), os.fsencode(torch))


main()
