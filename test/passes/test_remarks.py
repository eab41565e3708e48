"""What passes say when they skip a kernel, and who hears it."""

import subprocess
import sys

import pytest

from deplodock.passes import remarks
from deplodock.passes.pipeline import PASSES, STAGES

LABELS = {stage.name: stage.label for stage in PASSES}
TEXT = f"{LABELS['stage-inputs']} skipped at @k: no reuse"


def test_collected_remarks_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with remarks.collect() as found:
        remarks.skip("stage-inputs", "k", "no reuse")
    assert [str(remark) for remark in found] == [TEXT]
    assert found[0] == remarks.Remark("stage-inputs", "k", "no reuse")
    assert caplog.messages == []


def test_remarks_are_logged_again_after_collecting(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError), remarks.collect():
        raise RuntimeError
    remarks.skip("stage-inputs", "k", "no reuse")
    assert caplog.messages == [TEXT]


def test_unlisted_pass_goes_by_its_name() -> None:
    assert str(remarks.Remark("my-pass", "k", "why not")) == "my-pass skipped at @k: why not"


def test_one_line_on_stderr_without_any_setup() -> None:
    code = "from deplodock.passes import remarks; remarks.skip('stage-inputs', 'k', 'no reuse')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", TEXT + "\n")


def test_labels_follow_the_level_letters() -> None:
    assert "".join(dict.fromkeys(stage.letter for stage in STAGES)) == "doltk"
