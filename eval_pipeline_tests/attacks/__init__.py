"""Attacks on the pipeline: kills, broken surroundings, hostile answers and suites, planted secrets, strangers.

`python -m eval_pipeline_tests.attacks [SECTION…] --seconds N --seed S` carries them out; a section is one module of
this package with the verb `attack(seconds, seed, folder) -> Findings`.
"""
