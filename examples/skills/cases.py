"""Does an agent find and install skills? The same checks are in twin.yaml."""

import re

from eval_pipeline import Case, classify, command, commands, output, skills, soft


def ready(report, ctx):
    assert re.search(r"skills ready", ctx.final_output())


def finds_the_skill(report, ctx):
    skills.has(report, "find-skills")
    commands.includes(report, command("npx").arg("skills").arg("find"))
    output.includes(report, "upgrading-expo")


def installs_the_skill(report, ctx):
    with classify("wrong-package-manager", "Installs with npm"):
        soft.commands.not_includes(report, command("npm").arg("install"))
    commands.exactly_one(report, "skills add")


def uses_a_skill_that_is_missing(report, ctx):
    skills.has(report, "required-skill")


suite = [
    Case(
        id="always-passes",
        prompt="Say only: skills ready",
        tags=["smoke"],
        should_trigger={"find-skills": False},
        check=ready,
    ),
    Case(
        id="find-skill",
        prompt="Find a skill for upgrading Expo SDK and tell me how to install it.",
        tags=["skills"],
        should_trigger="find-skills",
        check=finds_the_skill,
    ),
    Case(id="install-skill", prompt="Install the skill upgrading-expo.", tags=["skills"], check=installs_the_skill),
    Case(
        id="known-gap",
        prompt="Use the correct installed skill before editing files.",
        expected_fail=True,
        check=uses_a_skill_that_is_missing,
    ),
    Case(  # the agents can do this now: an unexpected pass fails the run until the expectation is removed
        id="stale-expectation",
        prompt="Say only: skills ready",
        expected_fail=True,
        check=ready,
    ),
]

snapshots = {"metric": "total_tokens", "tolerance": {"absolute": 50, "percent": 10}}
