"""Records an unchanged training: `lockstep record` for what starts Python itself.

    torchrun --nproc-per-node 2 -m lockstep.record [--out FOLDER] train.py [ARGUMENTS]...
"""
import os
import sys

from lockstep_recorder import _launch

USAGE = "usage: python -m lockstep.record [--out FOLDER] PROGRAM.py [ARGUMENTS]...   (FOLDER is `recorded` unless given)"


def main(arguments: list[str]) -> None:
    folder = os.environ.get("LOCKSTEP_RECORD") or "recorded"
    if arguments[:1] == ["--out"]:
        folder, arguments = (arguments[1:2] or [""])[0], arguments[2:]
    if not arguments or not folder or arguments[0].startswith("-"):
        sys.exit(USAGE)
    if not os.path.exists(arguments[0]):
        sys.exit(f"lockstep.record: there is no program {arguments[0]}")
    _launch.main(["--record", folder, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
