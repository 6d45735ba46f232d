"""Dagster's beta and preview notices, silenced in one place.

Partition mappings, backfill policies and partitioned checks are beta or preview in Dagster. We pin its minor version
and test what we lean on (test_characterization.py): a notice at every start adds nothing. Importing this is enough.
"""

from __future__ import annotations

import warnings

from dagster._utils.warnings import BetaWarning, PreviewWarning

warnings.filterwarnings("ignore", category=BetaWarning)
warnings.filterwarnings("ignore", category=PreviewWarning)
