"""python -m lockstep_recorder --record FOLDER PROGRAM.py [ARGUMENTS]...
or -m MODULE in place of PROGRAM.py."""
import sys

from ._launch import main

main(sys.argv[1:])
