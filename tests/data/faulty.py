"""An operation on a file fails, once: the n-th below a folder, with an error of one's choice."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from netperf_lib.data import files

OPERATIONS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir"}
"""Events that Python audits."""
LIBRARY = str(Path(files.__file__).parents[1])


@dataclass
class Fault:
    """An operation below a folder that fails, once."""

    folder: str = "\0"
    number: int = 0
    code: int = 0
    kinds: list[tuple[str, str, str, int]] = field(default_factory=list)
    """Of each operation so far: what it is, on which file, and the line of the library."""

    def meet(self, path, event):
        text = os.fsdecode(path) if isinstance(path, bytes) else str(path)
        if not text.startswith(self.folder):
            return
        name = re.sub(r"[0-9a-f]{8,}|\d+", "0", text.rpartition("/")[2])
        self.kinds.append((event, name, *_line()))
        if len(self.kinds) == self.number:
            raise OSError(self.code, os.strerror(self.code), text)


def _line():
    """Return file and line of the library that are being executed."""
    frame = sys._getframe(2)
    while frame and not frame.f_code.co_filename.startswith(LIBRARY):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)


FAULT = [Fault()]


def audit(event, arguments):
    if event in OPERATIONS:
        FAULT[0].meet(arguments[0], event)


sys.addaudithook(audit)


@contextmanager
def fault(folder, number, code):
    """Let an operation below a folder fail; `number` 0 counts them only.

    Writes and fsync count too: they happen in C, where nothing is audited.
    """
    fsync, write, rows = files._fsync, Path.write_bytes, pq.ParquetWriter.write_table

    def meet_fsync(path):
        FAULT[0].meet(path, "fsync")
        fsync(path)

    def meet_write(path, data):
        FAULT[0].meet(path, "write")
        return write(path, data)

    def meet_rows(writer, *arguments, **options):
        FAULT[0].meet(writer.where, "write")
        rows(writer, *arguments, **options)

    FAULT[0] = Fault(str(folder), number, code)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_fsync", meet_fsync)
        patch.setattr(Path, "write_bytes", meet_write)
        patch.setattr(pq.ParquetWriter, "write_table", meet_rows)
        try:
            yield FAULT[0]
        finally:
            FAULT[0] = Fault()
