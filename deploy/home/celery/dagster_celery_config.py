"""Settings of the Celery workers, which `dagster_celery.app` reads from this name: it has to be on their PYTHONPATH."""

import os

broker_url = os.environ["CELERY_BROKER"]
result_backend = broker_url
"""Redis: the states of runs and chunks are where every service reads them."""
result_expires = 30 * 24 * 3600
"""How long (seconds) a run or a chunk may take."""
worker_prefetch_multiplier = 1
worker_disable_prefetch = True
"""A worker takes what it has a place for (Celery 5.6, Redis): else one with a run could hold back a chunk of it."""
task_acks_late = False
"""A run is given to one worker; one whose worker died is tried again by Dagster (run_retries)."""
worker_hijack_root_logger = False
