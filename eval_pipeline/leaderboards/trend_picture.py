"""A trend for people: a picture of the means and the line through them."""

from __future__ import annotations

import io

from eval_pipeline.leaderboards.trends import Trend

_MOST_LABELS = 12
_LONGEST_LABEL = 24


def trend_picture(found: Trend) -> bytes:
    """A PNG: the mean score of each sweep as a dot, the least-squares line through them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 — heavy, and only pictures need it
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    axis = figure.subplots()
    places = range(len(found.points))
    line = [found.line.intercept + found.line.slope * place for place in places]
    axis.plot(places, line, color="#9dbfd6", linewidth=2)
    axis.plot(places, [point.mean_score for point in found.points], "o", color="#2f6f9f", markersize=6)
    step = max(1, -(-len(found.points) // _MOST_LABELS))
    labels = [found.points[place].name[:_LONGEST_LABEL] for place in places[::step]]
    axis.set_xticks(list(places[::step]), labels, rotation=30, ha="right", fontsize=7)
    axis.set_ylim(-0.02, 1.02)
    axis.set_ylabel("mean score")
    axis.set_title(f"{found.direction}: {found.line.slope:+.4f} a sweep", loc="left", fontsize=10, fontweight="bold")
    axis.grid(axis="y", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    out = io.BytesIO()
    FigureCanvasAgg(figure).print_png(out)  # type: ignore[no-untyped-call]
    return out.getvalue()
