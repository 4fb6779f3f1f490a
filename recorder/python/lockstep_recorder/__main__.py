"""python -m lockstep_recorder --record FOLDER PROGRAM.py [ARGUMENTS]..."""
import sys

from ._launch import main

main(sys.argv[1:])
