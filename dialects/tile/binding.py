"""What runs the coordinates of the axes of a launch."""

from __future__ import annotations

from xdsl.dialects.utils import EnumAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum


class Binding(StrEnum):
    """What runs the coordinates of a launch axis."""

    BLOCK = "block"
    CLUSTER = "cluster"
    THREAD = "thread"
    REGISTER = "register"
    LANE = "lane"
    ENGINE = "engine"


@irdl_attr_definition
class BindingAttr(EnumAttribute[Binding]):
    """`#tile.binding<block>`: a CTA, one of a cluster, a thread, a register, a lane, or an engine's own reads."""

    name = "tile.binding"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.value)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Binding:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Binding)
