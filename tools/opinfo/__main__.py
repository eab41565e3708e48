"""Entry of `python -m deplodock.tools.opinfo`."""

import sys

from deplodock.tools.opinfo import main

sys.exit(main(sys.argv[1:]))
