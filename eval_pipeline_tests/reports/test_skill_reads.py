"""Which files of skills a session read."""

from __future__ import annotations

from eval_pipeline.reports.model import FileReadEvent, SessionReport


def test_files_of_skills_count_once_and_not_where_the_read_failed() -> None:
    reads = [("/w/.claude/skills/a/SKILL.md", True), ("/w/notes.md", True), ("/w/.claude/skills/a/SKILL.md", None),
             ("/w/.claude/skills/b/SKILL.md", False)]  # fmt: skip

    report = SessionReport(execution_id="e", events=tuple(FileReadEvent(path=path, ok=ok) for path, ok in reads))

    assert report.skill_reads == ("/w/.claude/skills/a/SKILL.md",)
