"""The command `lockstep`: becomes the program that lies in this package."""
import os
import shutil
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Never returns. The program starts this interpreter again for what needs LibTorch."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "lockstep")
    os.environ["LOCKSTEP_HOST"] = sys.executable
    # Commands that the program prints begin with what people type.
    name = os.path.basename(sys.argv[0])
    typed = name if shutil.which(name) == os.path.abspath(sys.argv[0]) else sys.argv[0]
    os.execv(program, [typed, *sys.argv[1:]])
