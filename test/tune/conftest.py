import pytest
from recorded import TABLES, Played

from deplodock.tune.comparison import modelled
from deplodock.tune.table import Table, read_table


@pytest.fixture(scope="session")
def table() -> Table:
    """512 rows of 3584 by 3584 in FP32."""
    return modelled(read_table(TABLES / "linear-512x3584x3584-f32-h200.jsonl"))


@pytest.fixture(scope="session")
def few_rows() -> Table:
    """32 rows of 3584 by 3584 in FP32."""
    return modelled(read_table(TABLES / "linear-32x3584x3584-f32-h200.jsonl"))


@pytest.fixture
def played(table: Table) -> Played:
    return Played(table)
