"""Runs of the recorded experiment under other names: experiments of a few runs each."""

import shutil
from dataclasses import asdict
from pathlib import Path

import netperf_lib as npl
from netperf_lib.data import raw
from netperf_lib.data.declaration import (
    declaration,
    declare,
    freeze,
    read_plan,
    write_plan,
)

RECORDED = npl.recorded()


def copies(root, *, runs, experiments=1):
    """Write experiments ``copy-1`` and so on of so many runs each, of each tool and placement one a
    round."""
    chosen = {}
    for record in raw.runs(RECORDED):
        trial = record.trial
        chosen.setdefault((record.round, trial["tool"], trial["placement"]), record)
    declared, plan = declaration(RECORDED).experiment, read_plan(RECORDED)
    del plan["frozen"]
    for number in range(1, experiments + 1):
        renamed = {"name": f"copy-{number}"}
        folder = Path(root, renamed["name"])
        declare(folder, declared.model_copy(update=renamed))
        write_plan(folder, plan)
        frozen = freeze(folder)
        for record in [*chosen.values()][:runs]:
            with raw.new_run(folder, record.run_id, durable=False) as place:
                shutil.copytree(
                    RECORDED / "raw" / record.run_id, place, dirs_exist_ok=True
                )
                (place / "run.json").unlink()
                facts = asdict(record) | {"experiment": folder.name}
                raw.write_record(place, facts, frozen)
