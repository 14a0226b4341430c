"""Runs the embedded AWS: `python -m local.aws --data DIR`."""

import sys

from local.aws.server import main

sys.exit(main())
