"""The command `eval-pipeline`, started as a module so that a benchmark measures this checkout."""

from eval_pipeline.cli.main import main

main()
