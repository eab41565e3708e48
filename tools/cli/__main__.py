"""Entry of `python -m deplodock.tools.cli`."""

from deplodock.tools.cli import main

main()
