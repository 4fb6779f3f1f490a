"""The program `lockstep judge` on what ranks recorded."""
from __future__ import annotations

import os
import subprocess

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "lockstep")
FAILED, UNREADABLE = 1, 2


def judge(folder: str, *arguments: str) -> tuple[int, str]:
    """Its exit code, and what it says of what does not hold."""
    result = subprocess.run(["lockstep", "judge", "-q", "--color", "never", folder, *arguments], executable=PROGRAM,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return result.returncode, result.stdout.strip()
