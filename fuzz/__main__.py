"""`python -m fuzz`: see docs/fuzzing.md."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
from pathlib import Path

from fuzz.execution import execute
from fuzz.instrument import HITS, Coverage
from fuzz.loop import fewest
from fuzz.runner import RunOptions, import_everything, run_all
from fuzz.storage import Folders, name_of
from fuzz.target import Target

MEMORY = 4 * 1024**3
"""Bytes. An input that needs more ends in `MemoryError`."""
SECONDS = 300
MOST_KEPT, MOST_KEPT_BYTES, LONGEST_KEPT = 14, 12 * 1024, 4 * 1024
"""What is kept in the repository for each target: inputs, their bytes in all, the bytes of one. The tests run
all of it."""


def main() -> int:
    options = _parser().parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Otherwise the order of sets differs from run to run.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "fuzz", *sys.argv[1:]])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    coverage = Coverage()
    coverage.install()
    try:
        return _run(options, coverage)
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    description = "Fuzz everything that reads foreign bytes. docs/fuzzing.md has examples."
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=description)
    add = parser.add_argument
    add("--target", action="append", metavar="NAME", help="a target or a group of targets; may be repeated")
    add("--minutes", type=float, default=0, help="how long, for all targets together")
    add("--seconds", type=float, default=SECONDS, help=f"the same in seconds (default: {SECONDS})")
    add("--runs", type=int, default=0, help="instead of a time: the number of new inputs for each target")
    add("--seed", type=int, default=0, help="another seed makes other inputs (default: 0)")
    add(
        "--no-recordings", action="store_true", help="do not start from the recordings next to the repository"
    )
    add("--folder", type=Path, default=Folders().local, help="for what is found (default: build/fuzz)")
    add("--list", action="store_true", help="list the targets")
    add("--reproduce", type=Path, metavar="FILE", help="run one finding again, and show what happens")
    add("--keep", nargs=2, metavar=("FILE", "NAME"), help="make a finding a case of the test suite")
    add("--merge", action="store_true", help="add the best inputs that were found to the repository")
    return parser


def _run(options: argparse.Namespace, coverage: Coverage) -> int:
    import_everything()
    # Only now: targets import the code that they test.
    from fuzz.targets import TARGETS, chosen, target_named

    HITS.clear()
    folders = Folders(local=options.folder)
    if options.list:
        for target in TARGETS:
            print(f"{target.group:12} {target.name:16} {target.about}")
        return 0
    if options.reproduce:
        return reproduce(target_named(options.reproduce.absolute().parent.name), options.reproduce)
    if options.keep:
        path = Path(options.keep[0]).absolute()
        return keep(folders, target_named(path.parent.name), path, options.keep[1])
    targets = chosen(options.target)
    if options.merge:
        for target in targets:
            merge(folders, target)
        return 0
    return _fuzz(targets, options, folders, coverage)


def _fuzz(targets: list[Target], options: argparse.Namespace, folders: Folders, coverage: Coverage) -> int:
    settings = RunOptions(
        seconds=(options.minutes * 60 or options.seconds) / len(targets),
        runs=options.runs,
        seed=options.seed,
        with_recordings=not options.no_recordings,
        folders=folders,
    )
    how_long = f"{options.runs} new inputs" if options.runs else f"{settings.seconds:.1f} s"
    print(f"{len(targets)} targets, {how_long} each, {coverage.branches:,} branches of code", flush=True)
    found = run_all(targets, coverage, settings)
    if found:
        print(f"\n{found} targets have findings, in {folders.local / 'findings'}: see docs/fuzzing.md")
    return 1 if found else 0


def reproduce(target: Target, path: Path) -> int:
    outcome = execute(target, path.read_bytes())
    print(f"{target.name}: {outcome.work:,} branches")
    print(outcome.failure.report if outcome.failure else "no failure")
    return 1 if outcome.failure else 0


def keep(folders: Folders, target: Target, path: Path, name: str) -> int:
    """Copy a finding to the inputs that the tests run."""
    folder = folders.regressions / target.name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, folder / name)
    print(f"{folder / name}: tests/fuzz/test_corpus.py runs it from now on")
    return 0


def merge(folders: Folders, target: Target) -> None:
    """Renew the inputs of a target in the repository: those with a name that describes them stay, and the
    fewest of the others that reach the rest. Nothing that was made from a recording is used."""
    folder = folders.kept / target.name
    folder.mkdir(parents=True, exist_ok=True)
    files = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    written = {data for path, data in files.items() if path.name != name_of(data)}
    reached: set[int] = set()
    found: list[tuple[bytes, frozenset[int]]] = []
    for each in folders.known_inputs(target, with_recordings=False):
        if len(each.data) > LONGEST_KEPT and each.data not in written:
            continue
        outcome = execute(target, each.data)
        if each.data in written:
            reached |= outcome.features
        elif outcome.failure is None:
            found.append((each.data, outcome.features))
    rest = [(data, features - reached) for data, features in found]
    kept = fewest(rest, MOST_KEPT - len(written), MOST_KEPT_BYTES)
    for path, data in files.items():
        if data not in written:
            path.unlink()
    for data in kept:
        (folder / name_of(data)).write_bytes(data)
    print(f"{target.name:16} {len(written):3} written by hand, {len(kept):3} found")


if __name__ == "__main__":
    sys.exit(main())
