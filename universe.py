"""What deplodock adds to every xDSL tool of the environment."""

from xdsl.universe import Universe

DEPLODOCK_UNIVERSE = Universe()
