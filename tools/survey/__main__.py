"""Entry of `python -m deplodock.tools.survey`."""

import sys

from deplodock.tools.survey import main

sys.exit(main(sys.argv[1:]))
