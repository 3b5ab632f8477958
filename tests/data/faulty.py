"""An operation on a file fails, once: the n-th below a folder, with an error of one's choice."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from netperf_lib.data import files

OPERATIONS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir"}
"""Events that Python audits."""


@dataclass
class Fault:
    """An operation below a folder that fails, once."""

    folder: str = "\0"
    number: int = 0
    code: int = 0
    count: int = 0

    def meet(self, path):
        text = os.fsdecode(path) if isinstance(path, bytes) else str(path)
        if not text.startswith(self.folder):
            return
        self.count += 1
        if self.count == self.number:
            raise OSError(self.code, os.strerror(self.code), text)


FAULT = [Fault()]


def audit(event, arguments):
    if event in OPERATIONS:
        FAULT[0].meet(arguments[0])


sys.addaudithook(audit)


@contextmanager
def fault(folder, number, code):
    """Let an operation below a folder fail; `number` 0 counts them only.

    Writes and fsync count too: they happen in C, where nothing is audited.
    """
    fsync, write, rows = files._fsync, Path.write_bytes, pq.ParquetWriter.write_table

    def meet_fsync(path):
        FAULT[0].meet(path)
        fsync(path)

    def meet_write(path, data):
        FAULT[0].meet(path)
        return write(path, data)

    def meet_rows(writer, *arguments, **options):
        FAULT[0].meet(writer.where)
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
