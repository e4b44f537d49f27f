"""Fuzz the readers of foreign texts with inputs that Atheris chooses by coverage.

    make fuzz-python ARGS="--inputs 100000 log ansible"

Each reader has a process of its own. New inputs are kept below ``build/fuzz/corpus``, failing ones
below ``build/fuzz/failed``: copy one to ``tests/reading/failed/READER``, where a test repeats it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

_WORK = Path("build/fuzz")
_READERS = ("record", "configuration", "definition", "log", "ansible")
_LONGEST = 600
"""Most bytes of an input: some lines of a log or of a configuration. Readers treat lines alike, so
longer inputs find no more and take longer."""
_LONGEST_RECORD = 20_000
_ONE = "--one"
_PACKAGES = ["tuner.reading", "tuner.record", "tuner.hosts.reason", "yaml"]


def main() -> None:
    """Fuzz the named readers one after another, and print a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("readers", nargs="*", choices=[[], *_READERS], help="[all]")
    parser.add_argument("--inputs", type=int, default=10_000_000, help="of each [10^7]")
    parser.add_argument("--seconds", type=int, default=0, help="most, of each; 0: no limit [0]")
    if sys.argv[1:2] == [_ONE]:
        _one(sys.argv[2], sys.argv[3:])
        return
    asked = parser.parse_args()
    codes = [_run(reader, asked.inputs, asked.seconds) for reader in asked.readers or _READERS]
    sys.exit(1 if any(codes) else 0)


def _run(reader: str, inputs: int, seconds: int) -> int:
    corpus, failed = _WORK / "corpus" / reader, _WORK / "failed" / reader
    for folder in (corpus, failed):
        folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.reading.fuzz", _ONE, reader, str(corpus)),
            *(f"-runs={inputs}", f"-max_total_time={seconds}", "-timeout=10"),
            *("-rss_limit_mb=2048", f"-artifact_prefix={failed}/", "-print_final_stats=1"),
            f"-max_len={_LONGEST_RECORD if reader == 'record' else _LONGEST}",
        ],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    output = done.stdout + done.stderr
    if done.returncode:
        sys.stderr.write(output[-4000:])
    ran = re.findall(r"number_of_executed_units:\s*(\d+)|^Done (\d+) runs", output, re.MULTILINE)
    rate = re.findall(r"average_exec_per_sec:\s*(\d+)", output)
    edges = re.findall(r" ft: (\d+)", output)
    count = next((one or other for one, other in reversed(ran)), "0")
    sys.stdout.write(
        f"{reader:13} {int(count):11} inputs {(rate or ['0'])[-1]:>7}/s"
        f" {(edges or ['0'])[-1]:>7} features\n"
    )
    sys.stdout.flush()
    return done.returncode


def _one(reader: str, libfuzzers: list[str]) -> None:
    """Fuzz a reader in this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=_PACKAGES):
        from tests.reading.checks import CHECKS, seeds
    corpus = Path(next(each for each in libfuzzers if not each.startswith("-")))
    for number, seed in enumerate(seeds(reader)):
        (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *libfuzzers], CHECKS[reader])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
