"""The examples of the README run as they stand."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[0])
def test_an_example_runs_and_prints_what_it_stored(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "docker" in printed or "hello" in printed


def test_both_commands_are_marked_for_the_gates() -> None:
    assert re.findall(r"<!-- ci: ([a-z-]+) -->\n```sh\n.+?```", README, flags=re.DOTALL) == ["main-job", "tests"]
