"""Symbol names for the functions and kernels that passes make."""

from xdsl.dialects.builtin import ModuleOp, StringAttr


class Symbols:
    """The symbols of a module, to name new ones apart from them."""

    def __init__(self, module: ModuleOp) -> None:
        self._uses: dict[str, int] = {}
        for op in module.walk():
            match op.properties.get("sym_name"):
                case StringAttr(data=name):
                    self._uses[name] = self._uses.get(name, 0) + 1
                case _:
                    pass

    def fresh(self, name: str) -> str:
        """`name`, or with a number if it is taken."""
        free, number = name, 0
        while free in self._uses:
            number += 1
            free = f"{name}_{number}"
        self._uses[free] = 1
        return free

    def remove(self, name: str) -> None:
        """Note that a symbol of that name is no more."""
        self._uses[name] -= 1
        if not self._uses[name]:
            del self._uses[name]

    def renamed(self, name: str) -> str:
        """The name for what replaces one symbol `name`: the same, unless another symbol has it too."""
        if self._uses[name] == 1:
            return name
        self._uses[name] -= 1
        return self.fresh(name)
