"""The assets of a pair as a graph: a sweep is cut into chunks, which an executor of Dagster gives to processes.

`cut` begins the sweep and says in the metadata of its outputs which pairs each chunk has; `chunk` carries them out as
part of the sweep, and says which failed; `finish` ends the sweep. Nothing is handed on but by these events of the run:
workers need no folder in common for it, and a retried run finds them at the run that it is a retry of.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from eval_pipeline.orchestration.asset_keys import keys_of
from eval_pipeline.orchestration.checks import logged_checks
from eval_pipeline.orchestration.config import form_of
from eval_pipeline.orchestration.event_batches import light_events_of
from eval_pipeline.orchestration.partitions import pair_partitions, partition_key
from eval_pipeline.orchestration.reporter import PAIR_ASSETS, PairReporter
from eval_pipeline.orchestration.sweep_step import CHUNKED_TAG, Work, carry_out, end_named, work_of
from eval_pipeline.orchestration.versions import report_inputs
from eval_pipeline.sweeps.chunks import Chunk, cut, expected_seconds
from eval_pipeline.sweeps.project_session import ProjectSession

SWEEP_TAG = "sweep"
_PAIRS, _FAILED = "pairs", "failed"


def chunked_assets(
    session: ProjectSession, specs: Sequence[dg.AssetSpec], checks: Sequence[dg.AssetCheckSpec]
) -> dg.AssetsDefinition:
    """The assets of a suite × runner, carried out in chunks; `specs` and `checks` are those of the one step."""
    assets, graph = (
        keys_of(session.project),
        _graph(session, {check.get_python_identifier(): check for check in checks}),
    )
    return dg.AssetsDefinition.dagster_internal_init(
        keys_by_input_name={name: assets.key(name) for name in graph.input_dict},
        keys_by_output_name={name: assets.key(name) for name in PAIR_ASSETS},
        node_def=graph,
        specs=list(specs),
        check_specs_by_output_name={check.get_python_identifier(): check for check in checks},
        selected_asset_keys=None,
        selected_asset_check_keys=None,
        can_subset=True,
        is_subset=False,
        resource_defs=None,
        backfill_policy=dg.BackfillPolicy.single_run(),
        execution_type=None,
        hook_defs=None,
    )


def _graph(session: ProjectSession, checks: dict[str, dg.AssetCheckSpec]) -> dg.GraphDefinition:
    Form: Any = form_of(session)
    inputs = {name: dg.In(dg.Nothing) for name in ("plans", "evaluators")}
    outputs = [*PAIR_ASSETS, *checks]

    @dg.op(name="cut", ins=inputs, out=dg.DynamicOut(dg.Nothing))
    def cut_sweep(context: dg.AssetExecutionContext, config: Form) -> Iterator[dg.DynamicOutput[None]]:
        work = work_of(context, session, config, pair_partitions)
        report_inputs(context.instance, session, work.pairs, work.options)
        chunks = _begin(context, session, work)
        failed = {partition_key(pair): reason for pair, reason in work.unusable.items()}
        for index, each in enumerate(chunks or [Chunk()]):
            described = _described(each, failed if index == 0 else {})
            yield dg.DynamicOutput(None, mapping_key=f"{index:05d}", metadata=described)

    @dg.op(name="chunk", ins={"begun": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
    def carry_out_chunk(context: dg.AssetExecutionContext, config: Form) -> Iterator[dg.Output[None]]:
        keys = _pairs_of(context, str(context.op_execution_context.get_mapping_key()))
        with light_events_of(context.instance):
            work = work_of(context, session, config, pair_partitions, only=keys)
            reporter = carry_out(context, session, work, _sweep_of(context))
        yield dg.Output(None, metadata={_FAILED: dg.MetadataValue.json(dict(reporter.failed))})

    @dg.op(name="finish", ins={"done": dg.In(dg.Nothing)}, out={name: dg.Out(is_required=False) for name in outputs})
    def finish_sweep(context: dg.AssetExecutionContext, config: Form) -> Iterator[dg.Output[None]]:
        work = work_of(context, session, config, pair_partitions, only=[])
        _end(context, session, work)
        yield from logged_checks(context)

    @dg.graph(
        name="evaluate",
        ins={name: dg.GraphIn() for name in inputs},
        out={name: dg.GraphOut() for name in outputs},
        config=dg.ConfigMapping(_for_each_op, config_schema=Form.to_config_schema()),
    )
    def evaluate(plans: Any, evaluators: Any) -> Any:
        chunks = cut_sweep(plans=plans, evaluators=evaluators).map(lambda begun: carry_out_chunk(begun=begun))
        done = finish_sweep(done=chunks.collect())
        return {name: getattr(done, name) for name in outputs}

    return evaluate


def _for_each_op(config: Any) -> dict[str, Any]:
    return {name: {"config": config} for name in ("cut", "chunk", "finish")}


def _begin(context: dg.AssetExecutionContext, session: ProjectSession, work: Work) -> list[Chunk]:
    """Record that the sweep begins, tag the run with it, and return its chunks."""
    if not work.pairs:
        return []
    names = [pair.name for pair in work.pairs]
    chunks = cut(names, expected_seconds(session, work.pairs, work.options), session.project.dagster)
    sweep_id = session.store.begin(work.pairs, work.options, context.run.run_id)
    context.instance.add_run_tags(context.run.run_id, {SWEEP_TAG: sweep_id, CHUNKED_TAG: str(len(chunks))})
    context.log.info(f"sweep {sweep_id}: {len(names)} pairs in {len(chunks)} chunks")
    return chunks


def _described(chunk: Chunk, failed: dict[str, str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {_PAIRS: dg.MetadataValue.json([partition_key(pair) for pair in chunk.pairs])}
    if chunk.seconds is not None:
        metadata["expected_seconds"] = round(chunk.seconds, 1)
    return metadata | ({_FAILED: dg.MetadataValue.json(failed)} if failed else {})


def _outputs(context: dg.AssetExecutionContext) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Yield mapping key and metadata of what the steps of a run put out, those of the runs that it retries first."""
    runs, run = [context.run], context.run
    while run.parent_run_id is not None and (parent := context.instance.get_run_by_id(run.parent_run_id)) is not None:
        runs.append(parent)
        run = parent
    for each in reversed(runs):
        for entry in context.instance.all_logs(each.run_id, of_type=dg.DagsterEventType.STEP_OUTPUT):
            output = entry.get_dagster_event().step_output_data
            yield output.step_output_handle.mapping_key, {name: value.value for name, value in output.metadata.items()}


def _pairs_of(context: dg.AssetExecutionContext, chunk: str) -> list[str]:
    found = [metadata[_PAIRS] for key, metadata in _outputs(context) if key == chunk and _PAIRS in metadata]
    return list(found[-1])


def _sweep_of(context: dg.AssetExecutionContext) -> str | None:
    """Return the sweep that the run's first step began; a step in another process does not have the newest tags."""
    run = context.instance.get_run_by_id(context.run.run_id)
    return run.tags.get(SWEEP_TAG) if run is not None else None


def _end(context: dg.AssetExecutionContext, session: ProjectSession, work: Work) -> None:
    """End the sweep of a run, and raise its one failure if any pair failed."""
    sweep_id, outputs = _sweep_of(context), list(_outputs(context))
    if sweep_id is not None:
        session.store.end(sweep_id, "finished")
        session.warehouse.publish()
    keys = {key for _, metadata in outputs for name in (_PAIRS, _FAILED) for key in metadata.get(name, ())}
    reporter = PairReporter(context, session, sorted(keys), {}, work.options.cases)
    for _, metadata in outputs:
        reporter.failed |= metadata.get(_FAILED, {})
    if work.named is not None:
        end_named(context, session, work.named, reporter, reporter.problem)
    reporter.raise_failure()
