"""The command ``bench``, which measures how fast this machine trains and translates."""

import json as json_format
from dataclasses import asdict

from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.display import align_columns, say

with lazy_imports():
    from transformer_cli.extensions.bench import bench as benches, machine
    from transformer_cli.model import device as devices

_BUSY = 0.1


def bench(json: options.Json = False, device: options.Device = "auto") -> None:
    """Measure how fast this machine trains and translates, in about a minute.

    It trains a model like multi30k_de_en_fast on random sentences and translates them, in each
    precision that the machine supports, with one thread and with all. Stop other programs first.
    Speeds are in target tokens per second. With --json, the result also describes the machine.

    \b
    Example:
      transformer-cli bench
      transformer-cli bench --json > here.json
    """
    devices.bound_kernel_caches()
    measured = benches.Bench.of_shipped_model(devices.choose_device(device))
    facts = machine.describe_machine(device)
    if (load := benches.measure_load()) > _BUSY:
        log(f"other programs use {load:.0%} of the processor: measure again without them")
    speeds = list(measured.measure())
    if json:
        found = {"machine": facts, "load": load, "model": benches.MODEL}
        say(json_format.dumps({**found, "speeds": list(map(asdict, speeds))}))
        return
    about = ("processor", "instructions", "cores", "device", "torch", "ctranslate2")
    rows = [*((key, facts[key]) for key in about), ("model", benches.MODEL)]
    table = [("", "by", "precision", "threads", "tokens/s")]
    for one in speeds:
        tokens = f"{one.tokens_per_second:,.0f}"
        table.append((one.what, one.engine, one.precision, str(one.threads), tokens))
    say("\n".join([*align_columns(rows, left=2), "", *align_columns(table, left=3)]))
