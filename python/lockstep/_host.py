"""Loads the whole program and runs it in this process: `python _host.py LIBRARY NAME ARGUMENTS`.

Started by the program `lockstep` alone (cli/lockstep_files.cpp), which has it loaded before all other libraries.
"""
import sys

del sys.path[0]  # This folder, whose files are no modules of others.

import ctypes
import importlib.util
import os
import signal


def main() -> None:
    """Never returns: the program ends the process."""
    library, *arguments = sys.argv[1:]
    # Every process that the program starts has the environment that it was called with.
    before = os.environ.pop("LD_PRELOAD").partition(":")[2]
    if before:
        os.environ["LD_PRELOAD"] = before
    del os.environ["LOCKSTEP_HOST"]
    if os.environ["PYTHONHASHSEED"] == "0":
        del os.environ["PYTHONHASHSEED"]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # The program has a way of its own.
    found = importlib.util.find_spec("torch")
    torch = os.path.dirname(found.origin) if found and found.origin else ""
    words = (ctypes.c_char_p * (len(arguments) + 1))(*map(os.fsencode, arguments), None)
    ctypes.CDLL(library).lockstep_main(len(arguments), words, os.fsencode(sys.prefix), os.fsencode(torch))


main()
