"""The files of the printer, which are imported for kernels that have their operations."""

import pytest

from deplodock.codegen import cuda
from deplodock.dialects.kernel import Kernel
from deplodock.loading import loaded


@pytest.mark.parametrize("file", cuda.FILES)
def test_a_file_writes_the_operations_that_the_table_says(file: str) -> None:
    texts = {cls.name for cls in loaded(f"deplodock.codegen.{file}").TEXTS}
    assert texts == {f"kernel.{name}" for name in cuda.FILES[file].operations.split()}
    assert texts <= {cls.name for cls in Kernel.operations}


@pytest.mark.parametrize("file", cuda.FILES)
def test_its_device_functions_are_found_by_how_their_names_begin(file: str) -> None:
    beginnings = cuda.FILES[file].functions
    assert all(name.startswith(beginnings) for name in loaded(f"deplodock.codegen.{file}").HELPERS)
    others = [name for other in cuda.FILES if other != file for name in loaded(f"deplodock.codegen.{other}").HELPERS]
    assert not [name for name in others if name.startswith(beginnings)]
