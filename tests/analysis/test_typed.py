"""What people type first: each call is answered, or refused in one line of ours that names what
is near."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import netperf_lib as npl
from netperf_lib.errors import NetperfError

TYPED = [
    line
    for line in (Path(__file__).with_name("typed.txt")).read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.fixture(scope="module")
def names(exp):
    return {"npl": npl, "exp": exp, "runs": exp.runs, "plt": plt}


@pytest.mark.slow
@pytest.mark.parametrize("line", TYPED)
def test_a_typed_call_is_answered_or_refused_in_one_line(
    line, names, tmp_path, monkeypatch
):
    repository = Path(__file__).parents[2]
    (tmp_path / "data").symlink_to(repository / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda *_: True)
    call, _, outcome = (part.strip() for part in line.partition("#"))
    if outcome:
        kinds = NetperfError, AttributeError, OSError
        with pytest.raises(kinds, match=outcome) as error:
            eval(call, dict(names))
        assert "\n" not in str(error.value)
        assert isinstance(error.value, NetperfError | OSError) or re.search(
            "did you mean|it offers|npl\\.", str(error.value)
        )
    else:
        answer = eval(call, dict(names))
        assert answer is not None
        assert repr(answer)
    plt.close("all")


def test_an_error_of_ours_is_one_red_line_in_a_notebook(names):
    with pytest.raises(NetperfError) as error:
        npl.levels(names["exp"], "latency_oneway_us", by="placment")
    (line,) = error.value._render_traceback_()
    assert "did you mean placement" in line
    assert line.startswith("\x1b[31mUsageError: ")
