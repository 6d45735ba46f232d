"""The agent `acme-agent`: a CLI that prints its answer as JSON."""

from __future__ import annotations

import json

from eval_pipeline import AgentCli, JsonlSessions, Launch, LaunchRequest, RawSession, RecordField, SessionReport


class AcmeOutput:
    """`{"answer": …}` on standard output."""

    version = "1"

    def normalize(self, material: RawSession) -> SessionReport:
        """Return the report of one session."""
        answer = json.loads(material.text("stdout") or "{}").get("answer")
        return SessionReport(execution_id=material.execution_id, final_output=answer)


def launch(request: LaunchRequest) -> Launch:
    """Return the command; the prompt comes by standard input."""
    return Launch(command=(request.executable, "--json", *request.args))


ACME_AGENT = AgentCli(
    name="acme-agent",
    executable="acme",
    launch=launch,
    output_format="acme-output",
    normalizers={"acme-output": AcmeOutput},
    tool_kinds={"look": "read"},
    sessions=JsonlSessions(
        format="acme-output",
        variable="ACME_HOME",
        default_folder=".acme",
        patterns=("*.jsonl",),
        session_id=(RecordField(("id",)),),
    ),
)
