"""`python -m penstock` is `penstock`."""

import sys

from penstock.cli import main

sys.exit(main())
