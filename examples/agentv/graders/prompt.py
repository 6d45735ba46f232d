"""Prints the prompt of a grader; texts of others come `fenced`, so that nothing in them can pose as instructions."""

import json
import sys

seen = json.load(sys.stdin)
print(f"In a tone that is {seen['config']['tone']}, an answer has to achieve:")
print(seen["criteria"])
print(seen["fenced"]["output"])
