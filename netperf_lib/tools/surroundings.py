"""What may stand around the lines of a tool, and what is refused.

A file is what a tool printed. Prompts, commands, lines that are only a date, colours, Windows line
ends, quote marks and indentation are left alone or removed. Anything else that another program put
around a log is named, and refused.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_QUOTE = re.compile(r"^[ \t]*(?:>(?=[ \t>]|$)[ \t]?)+", re.MULTILINE)
_TIMESTAMPS = re.compile(
    r"^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[A-Z]{3,4} )?\d{4} (?=\S)",
    re.MULTILINE,
)
"""What iperf3 itself prints before each line with ``--timestamps``."""


def decode(data: bytes) -> str:
    """Decode a log file: UTF-8, or UTF-16 as PowerShell's ``>`` writes it."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8", errors="replace")


def clean(text: str) -> str:
    """Return the lines as the tool printed them."""
    text = text.replace("\ufeff", "")
    if "\r" in text:
        text = re.sub(r"\r*\n|\r", "\n", text)
    text = without_colours(text)
    if ">" in text:
        text = _QUOTE.sub("", text)
    text = _TIMESTAMPS.sub("", text)
    if text[:1].isspace():
        text = textwrap.dedent(text)
    return text


_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_TIME = re.compile(
    rf"""\[?(?:
      \d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:Z|\ ?[-+]\d\d:?\d\d)?  # ISO 8601
      |[A-Z][a-z]{{2}}\ [ \d]\d\ {_CLOCK}  # ts, journald, syslog
      |{_CLOCK}  # ts -i, ts -s, iperf3 --timestamps=FORMAT
      |\d{{9,10}}\.\d+  # seconds since 1970
    )\]?:?(?:\ (?!(?:INFO|DBG|WARN|ERR)\ ?:)|$)
    (?:\S+\ [\w.@-]+\[\d+\]:(?:\ |$))?""",
    re.VERBOSE | re.MULTILINE,
)
"""A time, and the host and program after it in a journal; ntttcp begins its own lines with one."""
_JOURNAL = re.compile(r"-- (?:Logs begin|Journal begins|Boot) .*--\n")


def without_times(text: str) -> tuple[str, bool]:
    """Take a time off the beginning of every line; return whether there was one.

    A text in which only some lines begin with a time stays as it is.
    """
    text = _JOURNAL.sub("", text, 1)
    if not _TIME.match(text):
        return text, False
    kept = []
    for line in text.split("\n"):
        time = _TIME.match(line)
        if line.strip() and not time:
            return text, False
        kept.append(_TIME.sub("", line, 1) if time else line)
    return "\n".join(kept), True


def without_colours(text: str) -> str:
    """Remove the codes that colour a terminal; sockperf prints them into files, too."""
    return _ANSI.sub("", text) if "\x1b" in text else text


_HEAD = 1 << 16
"""Characters at the start of a text that show what it is."""
_JSON = re.compile(r'\s*(?:\{\s*"|\[\s*[{\["])')
_OWN_JSON = re.compile(
    r'\s*\{\s*"(?:start|intervals|end|error|title|event|server_output_\w+)"'
)
_PREFIXED = re.compile(
    r"^(.*?)(?:\[ *(?:ID|SUM|\d+)\](?:\[\w\w-[CS]\]|\[Role\])? +(?:Interval|\d+\.\d+ *-)"
    r"|sockperf: |(?:send_|recv_)?(?:latency|bw|msg_rate) +=  |\d\d:\d\d:\d\d (?:INFO|DBG) ?:"
    r'|"(?:bits_per_second|jitter_ms)":)',
    re.MULTILINE,
)
"""A line that a tool prints, and what stands before it."""
_OWN_ENDS = (":  ", "**")
"""How words end that are no such prefix: the title of ``iperf3 -T``, and bold print."""


def foreign(text: str) -> str:
    """Name what another program put around the lines of a log.

    An empty text if nothing is known to.
    """
    head = text[:_HEAD]
    if _JSON.match(head) and not _OWN_JSON.match(head):
        if '"nbformat"' in text:
            return "it is a Jupyter notebook"
        return "it is JSON that iperf3 did not print"
    if "=3D" in head:
        return _MAIL
    before = _PREFIXED.findall(head)
    marked = []
    for words in before:
        own = words.endswith(_OWN_ENDS) or words.lstrip().startswith("{")
        if words.strip() and not own:
            marked.append(words)
    if len(marked) > 0.5 * len(before):
        common = Counter(marked).most_common(1)[0][0]
        return f"another program began its lines, such as with {common[:40]!r}"
    return ""


_MAIL = "it is an encoded mail"


def trace(text: str) -> str:
    """Name what may be the reason why no run is readable; an empty text if nothing shows it."""
    head = text[:_HEAD]
    if re.search(r"(?:\\n[^\n]*){4}", head):
        return "it is the output of a command within JSON"
    # the rules of ntttcp's tables end in "==="
    if re.search(r"[^=\n]=(?:20)?\n.*[^=\n]=(?:20)?\n", head, re.DOTALL):
        return _MAIL
    return ""
