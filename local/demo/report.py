"""What the demo shows at its end: when each phase was reached, and what each hop did to the pod."""

from collections.abc import Iterator
from datetime import datetime

from local.demo.story import Story, in_words

_ROW = "  {:>3}  {:8} {:10} {:10} {:>8} {:>12} {:>12}"


def timeline_lines(story: Story) -> Iterator[str]:
    """When each operation reached each phase, in seconds from its request."""
    yield "timeline, seconds from the request:"
    width = max(len(label) for label, _ in story.timeline)
    for label, operation in story.timeline:
        begun = datetime.fromisoformat(operation["milestones"][0]["at"])
        marks = [
            f"{in_words(m['phase'])} "
            f"{(datetime.fromisoformat(m['at']) - begun).total_seconds():.1f}"
            for m in operation["milestones"][1:]
        ]
        yield f"  {label:{width}} {', '.join(marks)}"


def hop_lines(story: Story) -> Iterator[str]:
    """A table of the hops. What is charged is each provider's own word on all its machines."""
    yield f"the pod's way, with {len(story.inventory):,} paths compared after each hop:"
    titles = ("hop", "by", "provider", "machine", "seconds", "differences", "USD in all")
    yield _ROW.format(*titles)
    for number, hop in enumerate(story.hops, 1):
        numbers = (f"{hop.seconds:.1f}", "-" if hop.differences is None else hop.differences)
        cost = f"{story.costs[hop.provider] / 1e6:.6f}"
        yield _ROW.format(number, hop.how, hop.provider, hop.kind, *numbers, cost)
