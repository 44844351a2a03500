"""Release a version: `python -m release 1.2.3` (or `make release VERSION=1.2.3`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from release.candidate import NOTES, SUMS, Release
from release.refusal import ReleaseRefused

_LEFT = """\
What is left to do (docs/releasing.md explains it):

  git push --follow-tags
  {python} -m twine upload {dist}/penstock-{version}.tar.gz {dist}/penstock-{version}-py3-none-any.whl
  vsce publish --packagePath {dist}/penstock-{version}.vsix
  publish {dist}/{notes} with the files that {dist}/{sums} lists
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m release", description="Release a version of Penstock.")
    parser.add_argument("version", metavar="VERSION", help="three numbers, such as 1.2.3")
    parser.add_argument(
        "--dry-run", action="store_true", help="build and check everything, but commit nothing"
    )
    parser.add_argument(
        "--without-extension", action="store_true", help="build no .vsix, where there is no npm"
    )
    options = parser.parse_args(arguments)
    release = Release(Path.cwd(), options.version, has_extension=not options.without_extension)
    try:
        dist = release.run(dry=options.dry_run)
    except ReleaseRefused as refused:
        print(f"release: {refused}\nrelease: nothing was committed or tagged", file=sys.stderr)
        return 1
    if options.dry_run:
        print(f"{dist}: the files of {release.version}. Nothing was committed or tagged")
    else:
        print(f"released {release.version}: commit and tag {release.tag}, files in {dist}\n")
        print(
            _LEFT.format(
                python=".venv/bin/python", version=release.version, dist="dist", notes=NOTES, sums=SUMS
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
