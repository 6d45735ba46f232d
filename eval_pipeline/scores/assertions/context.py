"""The second argument of a check: a view of the session report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.reports.model import DetectedSkill, SessionReport, ToolCallEvent
from eval_pipeline.scores.session_facts import detected_skills


@dataclass(frozen=True, slots=True)
class AssertionContext:
    """What checks read most often of a report. `workspace` is the folder as the target left it, None without one."""

    report: SessionReport
    case_id: str = ""
    runner: str | None = None
    workspace: Path | None = None

    def commands(self) -> list[str]:
        """Return the shell commands, in order."""
        return list(self.report.commands)

    def tool_calls(self, tool: str | None = None) -> list[ToolCallEvent]:
        """Return the tool calls, in order; those of one tool, by its exact name."""
        return [call for call in self.report.tool_calls if tool is None or call.tool == tool]

    def file_reads(self) -> list[str]:
        """Return the paths of the files that were read, in order, each once."""
        return list(self.report.file_reads)

    def detected_skills(self) -> list[DetectedSkill]:
        """Return the skills that were used."""
        return list(detected_skills(self.report))

    def final_output(self) -> str:
        """Return the final output; the empty text without one."""
        return self.report.final_output or ""

    get_commands = commands
    get_tool_calls = tool_calls
    get_file_reads = file_reads
