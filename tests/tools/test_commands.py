"""What each tool is told to run, word by word: for every test, with each option and level by
itself."""

from pathlib import Path

from netperf_lib.errors import UsageError
from netperf_lib.tools import TOOLS, Request

EXPECTED = Path(__file__).with_name("commands.txt")
LEVELS = (
    {},
    {"streams": 2},
    {"tcp_buffer_bytes": 65536},
    {"message_bytes": 1000},
    {"omit_s": 2},
    {"duration_s": 2.5},
)
VALUES = {
    "rate": "2.5M",
    "messages": "max",
    "word": "reno",
    bool: True,
    int: 12,
    float: 0.5,
}


def told():
    """A line for each request: what is asked, the commands, the rate; or why it is refused."""
    for name, tool in TOOLS.items():
        yield f"{name} {tool.PACKAGE} {' '.join(tool.VERSION)}; loads: {' '.join(tool.LOAD_TESTS)}"
        for o in tool.OPTIONS:
            yield f"{name} {o.name} {o.flag} {o.default} {o.unit}: {o.help}"
            for value in ("two words", -1, True, 2.5):
                yield f"{name} {o.name} {value!r}: {o.problem(value)}"
        options = [
            {o.name: o.type[-1] if isinstance(o.type, tuple) else VALUES[o.type]}
            for o in tool.OPTIONS
        ]
        options = [o for o in options if "mps" not in o] + [
            {"mps": "max"},
            {"bitrate": 0},
            {"reverse": True, "bidir": True},
            {"mps": 50, "reply_every": 5},
            {"mps": 50, "reply_every": 0},
        ]
        for test in tool.TESTS:
            cases = [(level, {}) for level in LEVELS] + [
                ({}, option) for option in options
            ]
            for level, given in cases:
                request = Request(
                    **{"tool": name, "test": test, "duration_s": 10, "options": given}
                    | level
                )
                yield f"{name} {test} {level | given}: {answer(request, '10.0.0.2')}"
            yield (
                f"{name} {test} IPv6: "
                f"{answer(Request(tool=name, test=test, duration_s=10), 'fd00::2')}"
            )


def answer(request, address):
    tool = TOOLS[request.tool]
    try:
        c = tool.commands(request, address, 5201)
    except UsageError as error:
        return f"refused, {error}"
    ends = (
        f"{' '.join(c.client)} | {' '.join(c.server or ())} | {c.listens} {c.timeout_s:g} "
        f"{c.server_ends}"
    )
    return f"{ends} {tool.rate_bps(request):g}"


def test_every_command_is_as_before():
    lines = list(told())
    assert lines == EXPECTED.read_text().splitlines(), (
        "python -m tests.tools.test_commands takes what is told now"
    )


def test_every_option_takes_its_own_default():
    for option in [option for tool in TOOLS.values() for option in tool.OPTIONS]:
        assert option.default is None or option.problem(option.default) is None
        assert option.problem([1]) is not None


if __name__ == "__main__":
    EXPECTED.write_text("\n".join(told()) + "\n")
