"""Random tests over the evaluators of AgentV that need no model, and over graders whose model is a script.

The input of a test is the answer: targets repeat it. What a grader's model replies is written into what the grader
reads (`REPLY`), so that both commands grade by the same reply.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

Test = dict[str, Any]
WORDS = ("red", "Red", "blue", "green tea", "42", "a.b", "ärger", "x")
TOOLS = ("search", "Read", "bash", "write_file")
PATHS = ("total", "vendor.name", "lines[0].price", "date", "missing.deep")
REPLY = "REPLY<{}>"
APART = 5
"""Examples that follow each other are variants of one; every fifth is kept."""

words = st.sampled_from(WORDS)
shares = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.8, 0.9, 1.0])
weights = st.sampled_from([0, 0.5, 1, 2, 3.5])
spaces = st.sampled_from(["", " ", "\n"])
texts = st.builds(lambda parts, start, end: start + " ".join(parts) + end, st.lists(words, max_size=4), spaces, spaces)
leaves = st.one_of(st.integers(-3, 50), st.sampled_from([1.5, 10.05, True, False, None, "1.5", "12 EUR"]), words)
dates = st.sampled_from([
    "2025-01-15", "15-JAN-2025", "01/15/2025", "15/01/2025", "Jan 15, 2025", "2025-01-15T10:00:00Z", "soon",
    "01/02/2025",
])  # fmt: skip
records = st.fixed_dictionaries(
    {},
    optional={
        "total": leaves,
        "vendor": st.fixed_dictionaries({"name": words}),
        "lines": st.lists(st.fixed_dictionaries({"price": leaves}), max_size=2),
        "date": dates,
    },
)
arguments = st.dictionaries(st.sampled_from(["q", "path", "n"]), st.one_of(words, st.integers(0, 3)), max_size=2)
calls = st.fixed_dictionaries(
    {"tool": st.sampled_from(TOOLS)},
    optional={"input": arguments, "output": words, "duration_ms": st.integers(0, 400)},
)


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these fields, few of them."""
    return st.fixed_dictionaries({}, optional=fields)


def _entry(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


gates = st.one_of(
    st.just({}),
    st.just({}),
    st.just({"required": True}),
    st.just({"required": False}),
    shares.filter(bool).map(lambda share: {"required": True, "min_score": share}),
    shares.filter(bool).map(lambda share: {"required": share}),
    shares.filter(bool).map(lambda share: {"min_score": share}),
)
common = st.builds(
    lambda gate, rest: gate | rest,
    gates,
    st.one_of(st.just({}), _optional(weight=weights), _optional(negate=st.booleans())),
)
one_word = st.sampled_from(["contains", "icontains", "starts-with", "ends-with", "equals", "starts_with"])
text_kinds = st.one_of(
    st.fixed_dictionaries({"type": one_word, "value": st.one_of(words, texts.filter(str.strip))}),
    st.fixed_dictionaries({
        "type": st.sampled_from(["contains-any", "contains-all", "icontains-any", "icontains-all", "contains_any"]),
        "value": st.lists(words, min_size=1, max_size=3),
    }),
    st.builds(
        lambda value, flags: {"type": "regex", "value": value} | flags,
        st.sampled_from([r"\bred\b", r"^red", r"\d+", r"(?<w>b)lue", "[A-Z]ed$", r"a\.b", "ä", r"\w+ tea", ".", "^$"]),
        st.one_of(st.just({}), st.sampled_from(["i", "m", "s", "im", "u"]).map(lambda flags: {"flags": flags})),
    ),
    st.just({"type": "is-json"}),
    st.just({"type": "is_json"}),
)  # fmt: skip
measures = st.one_of(
    _entry("latency", threshold=st.sampled_from([0, 99, 100, 5000])),
    _entry("cost", budget=st.sampled_from([0, 0.01, 0.02, 1])),
    st.builds(
        lambda limits: {"type": "token-usage"} | limits,
        _optional(
            max_total=st.sampled_from([10, 160, 175, 400]),
            max_input=st.sampled_from([99, 100]),
            max_output=st.sampled_from([49, 50]),
        ).filter(bool),
    ),
    st.builds(
        lambda limits, tolerance: {"type": "execution-metrics"} | limits | tolerance,
        _optional(
            max_tool_calls=st.integers(0, 3), max_llm_calls=st.integers(0, 2),
            max_tokens=st.sampled_from([149, 150, 400]), max_cost_usd=st.sampled_from([0.01, 0.5]),
            max_duration_ms=st.sampled_from([99, 100, 500]),
            target_exploration_ratio=shares,
        ).filter(bool),
        _optional(exploration_tolerance=shares),
    ),
)  # fmt: skip
matches = st.one_of(
    st.sampled_from(["exact", "superset", "subset", "ignore"]), st.lists(st.sampled_from(["q", "path"]), min_size=1)
)
expected_calls = st.builds(
    lambda tool, rest: {"tool": tool} | rest,
    st.sampled_from(TOOLS),
    _optional(
        args=st.one_of(st.just("any"), arguments), max_duration_ms=st.sampled_from([0, 100, 400]), args_match=matches
    ),
)
trajectories = st.one_of(
    _entry(
        "tool-trajectory",
        mode=st.just("any_order"),
        minimums=st.dictionaries(st.sampled_from(TOOLS), st.integers(0, 2), min_size=1, max_size=2),
    ),
    st.builds(
        lambda entry, level: entry | level,
        _entry(
            "tool-trajectory",
            mode=st.sampled_from(["in_order", "exact", "superset", "subset"]),
            expected=st.lists(expected_calls, min_size=1, max_size=3),
        ),
        _optional(args_match=matches),
    ),
)
fields = st.builds(
    lambda path, match, rest: {"path": path, "match": match} | rest,
    st.sampled_from(PATHS),
    st.sampled_from(["exact", "numeric_tolerance", "date"]),
    _optional(
        required=st.booleans(), weight=weights, tolerance=st.sampled_from([0, 0.1, 5]), relative=st.booleans(),
        formats=st.lists(st.sampled_from(["MM/DD/YYYY", "DD/MM/YYYY", "YYYY-MM-DD"]), min_size=1, max_size=2),
    ),
)  # fmt: skip
accuracy = st.builds(
    lambda entry, aggregation: entry | aggregation,
    _entry("field-accuracy", fields=st.lists(fields, min_size=1, max_size=3, unique_by=lambda field: field["path"])),
    _optional(aggregation=st.sampled_from(["weighted_average", "all_or_nothing"])),
)
skills = st.builds(
    lambda entry, rest: entry | rest,
    _entry("skill-trigger", skill=st.sampled_from(["red", "blue"])),
    _optional(should_trigger=st.booleans()),
)
programs = st.builds(
    lambda score, extra: {
        "type": "code-grader",
        "command": ["sh", "grade.sh", json.dumps({"score": score} | extra, sort_keys=True)],
    },
    shares,
    _optional(assertions=st.lists(st.fixed_dictionaries({"text": words, "passed": st.booleans()}), max_size=2)),
)


def _reply(value: Any) -> str:
    return REPLY.format(json.dumps(value).encode().hex())


free_form = st.fixed_dictionaries(
    {"score": shares},
    optional={"assertions": st.lists(st.fixed_dictionaries({"text": words, "passed": st.booleans()}), max_size=3)},
)
graders = free_form.map(lambda reply: {"type": "llm-grader", "prompt": f"Grade {{{{ output }}}} {_reply(reply)}"})


@st.composite
def checklists(draw: st.DrawFn) -> dict[str, Any]:
    """`rubrics` with criteria of all forms; the reply may leave one out, or answer one that nobody asked for."""
    amount = draw(st.integers(1, 3))
    ranges = draw(st.booleans())
    criteria = [draw(_criteria(index, ranges)) for index in range(amount)]
    known = [item["id"] for item in criteria]
    answered = draw(st.lists(st.sampled_from([*known, "other"]), min_size=1, unique=True)) if amount > 1 else known
    value = st.integers(0, 10).map(lambda n: ("score", n)) if ranges else st.booleans().map(lambda b: ("satisfied", b))
    checks = [{"id": id_, "reasoning": "r", **dict([draw(value)])} for id_ in answered]
    reply = _reply({"checks": checks, "overall_reasoning": "all"})
    criteria[0]["outcome"] = f"{criteria[0].get('outcome', 'good')} {reply}"
    return {"type": "rubrics", "criteria": criteria}


def _criteria(index: int, ranges: bool) -> st.SearchStrategy[dict[str, Any]]:
    plain = _optional(weight=weights, required=st.booleans())
    scored = _optional(weight=weights, required=st.booleans(), min_score=shares.filter(bool))
    bands = {"score_ranges": {0: "bad", 4: "fair", 8: "good"}} if ranges else {}
    return (scored if ranges else plain).map(lambda rest: {"id": f"c{index}", "outcome": "is good"} | bands | rest)


simple = st.one_of(text_kinds, text_kinds, measures, trajectories, accuracy, skills, programs, graders)


def _group(aggregator: dict[str, Any], members: list[dict[str, Any]]) -> dict[str, Any]:
    named = [{"name": f"m{index}", **member} for index, member in enumerate(members)]
    if "weights" in aggregator:
        known = {member["name"] for member in named}
        kept = {name: weight for name, weight in aggregator["weights"].items() if name in known}
        aggregator = {**aggregator, "weights": kept}
    return {"type": "composite", "aggregator": aggregator, "assertions": named}


def _composite(members: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    aggregators = st.one_of(
        st.just({"type": "weighted_average"}),
        st.tuples(weights, weights, weights).map(
            lambda each: {"type": "weighted_average", "weights": dict(zip(("m0", "m1", "m2"), each, strict=True))}
        ),
        shares.map(lambda share: {"type": "threshold", "threshold": share}),
        shares.map(lambda share: {"type": "code-grader", "path": f"sh grade.sh '{{\"score\": {share}}}'"}),
    )
    negations = st.sampled_from([{}, {}, {}, {"negate": True}])
    listed = st.lists(st.builds(lambda member, rest: member | rest, members, negations), min_size=1, max_size=3)
    return st.builds(_group, aggregators, listed)


canonical = simple.filter(lambda entry: "_" not in entry["type"])
composites = st.one_of(_composite(canonical), _composite(st.one_of(canonical, _composite(canonical))))
entries = st.builds(
    lambda entry, rest: entry | rest, st.one_of(simple, simple, simple, composites, checklists()), common
)

usage = _optional(
    token_usage=st.fixed_dictionaries(
        {"input": st.just(100), "output": st.just(50)}, optional={"cached": st.sampled_from([0, 25])}
    ),
    cost_usd=st.sampled_from([0, 0.01, 0.02]),
)
answers = st.one_of(texts, records.map(json.dumps), records.map(lambda record: f"```json\n{json.dumps(record)}\n```"))
messages = st.builds(
    lambda content, tools: {"role": "assistant", "content": content} | ({"tool_calls": tools} if tools else {}),
    answers,
    st.lists(calls, max_size=3),
)
whole_answers = st.builds(
    lambda output, known: {"output": output, "duration_ms": 100, **known},
    st.lists(messages, min_size=1, max_size=2),
    usage,
)


def _texts(satisfied: list[bool]) -> list[str]:
    """Plain texts as criteria, and a reply about them in the first."""
    checks = [{"id": f"rubric-{at}", "satisfied": each, "reasoning": "r"} for at, each in enumerate(satisfied, 1)]
    reply = _reply({"checks": checks, "overall_reasoning": "all"})
    return [f"Is good {reply}", *("Is brief" for _ in satisfied[1:])]


criteria_texts = st.lists(st.booleans(), min_size=1, max_size=3).map(_texts)


@st.composite
def random_test(draw: st.DrawFn) -> Test:
    """A test with an answer and one to four evaluators."""
    test: Test = {
        "input": json.dumps(draw(whole_answers)),
        "criteria": "is right",
        "assertions": draw(st.lists(entries, min_size=1, max_size=4)),
    }
    if draw(st.booleans()):
        test["expected_output"] = draw(st.one_of(texts.filter(str.strip), records.filter(bool)))
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(test["assertions"])))
        test["assertions"][at:at] = draw(criteria_texts)
    if draw(st.integers(0, 3)) == 0:
        test["execution"] = {"threshold": draw(shares)}
    return test


def draw_tests(count: int, key: str) -> list[Test]:
    """Return this many random tests, the same for the same key."""
    drawn: list[Test] = []

    @seed(key)
    @settings(
        max_examples=count * APART,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(random_test())
    def collect(test: Test) -> None:
        drawn.append(test)

    collect()
    return [{"id": f"t{number}", **test} for number, test in enumerate(drawn[APART - 1 :: APART])]
