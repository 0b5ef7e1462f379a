"""``python -m kernelevolve.cli``: the same program as ``kernelevolve``."""

from kernelevolve.cli import main

main()
