"""Random suites, runners files and project files through the public verbs: a result or an error with its place, never a
stack trace. `python -m eval_pipeline_tests.fuzzing --seconds 600` runs it for longer; a seed that is printed makes the
same input again."""
