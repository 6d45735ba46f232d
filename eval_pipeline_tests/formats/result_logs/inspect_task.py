"""A task with a tool and two scorers, carried out by a model of scripted answers; run in an environment with inspect."""

# mypy: ignore-errors
# ruff: noqa
import sys
from inspect_ai import Task, eval, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate, use_tools, system_message
from inspect_ai.tool import tool


@tool
def add():
    async def execute(x: int, y: int):
        """Add two numbers.

        Args:
            x: First.
            y: Second.
        """
        return x + y

    return execute


@task
def sums():
    return Task(
        dataset=[
            Sample(id="a", input="What is 1 + 1?", target="2", metadata={"level": "easy"}),
            Sample(id=2, input="What is 20 + 22?", target=["42", "forty-two"]),
            Sample(id="c", input="What is 7 * 6?", target="42", choices=["41", "42"]),
        ],
        solver=[system_message("Answer briefly."), use_tools(add()), generate()],
        scorer=[includes(), match()],
    )


def outputs(*texts):
    out = []
    for t in texts:
        if t == "call":
            out.append(ModelOutput.for_tool_call("mockllm", "add", {"x": 20, "y": 22}))
        else:
            out.append(ModelOutput.from_content("mockllm", t))
    for o in out:
        o.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15, input_tokens_cache_read=4)
    return out


if __name__ == "__main__":
    texts = ("2", "call", "It is 42", "41", "3", "42", "42")
    model = get_model("mockllm/model", custom_outputs=outputs(*texts), memoize=False)
    eval(sums(), model=model, epochs=2, log_dir=sys.argv[1], log_format=sys.argv[2], display="none", max_samples=1)
