"""Tests of Hypothesis in worlds: it draws in the process of pytest, and every rank runs the body with each example."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import hypothesis
from hypothesis import control, reporting
from hypothesis.errors import Frozen, InvalidArgument
from hypothesis.internal.conjecture.data import ConjectureData

if TYPE_CHECKING:
    from ._rank import Outcome
    from ._verdict import Verdict

world_size: int | None = None  # Of the test that draws in this process.


def run(test: Any, body: Callable[..., Any], args: dict[str, Any], size: int,
        run_example: Callable[[Callable[..., Any], dict[str, Any]], Verdict], conclude: Callable[[Verdict], None]) -> None:
    """Calls `test`, which @given made of `body`. In the body's place stands a function that runs it on every rank, by `run_example`,
    and raises what failed there, by `conclude`."""
    global world_size
    settings = test._hypothesis_internal_use_settings

    @functools.wraps(body)
    def example(*_: Any, self: Any = None, **values: Any) -> None:
        verdict = run_example(without_draws(body), values)
        report(verdict)
        conclude(verdict)

    wrapped = getattr(test, "__func__", test)
    # A world has a timeout of its own, and its ranks' start would count; and no line of the body runs in this process.
    phases = [phase for phase in settings.phases if phase is not hypothesis.Phase.explain]
    wrapped._hypothesis_internal_use_settings = hypothesis.settings(parent=settings, deadline=None, phases=phases)
    test.hypothesis.inner_test, world_size = example, size
    try:
        test(**args)
    finally:
        test.hypothesis.inner_test, world_size = body, None
        wrapped._hypothesis_internal_use_settings = settings


def without_draws(body: Callable[..., Any]) -> Callable[..., Any]:
    """A body for processes that are forked while Hypothesis draws here, and that could draw in a copy of it."""
    data = control.current_build_context().data

    @functools.wraps(body)
    def function(*args: Any, **values: Any) -> Any:
        data.freeze()
        try:
            return body(*args, **values)
        except Frozen as error:
            raise InvalidArgument("a value that @given made draws in the body (st.data(), st.functions(), st.randoms()), where each rank "
                                  "would draw for itself: draw all that the body needs in the arguments of @given"
                                  ).with_traceback(error.__traceback__) from None
    return function


@contextlib.contextmanager
def on_rank(outcome: Outcome) -> Iterator[None]:
    """note(), event() and target() of the body are kept in the outcome."""
    data = ConjectureData.for_choices(())
    with reporting.with_reporter(lambda text: outcome.notes.append(str(text))), control.BuildContext(data, is_final=True, wrapped_test=on_rank):
        try:
            yield
        finally:
            outcome.events, outcome.targets = dict(data.events), dict(data.target_observations)


def report(verdict: Verdict) -> None:
    """Passes to Hypothesis what the ranks noted."""
    outcomes = [end.outcome for end in verdict.ends if end.outcome is not None]
    for outcome in outcomes:
        for value, payload in outcome.events.items():
            hypothesis.event(value, payload)
    for label, observation in outcomes[0].targets.items() if outcomes else ():
        hypothesis.target(observation, label=label)
    notes = [end.outcome.notes if end.outcome else [] for end in verdict.ends]
    for rank, each in enumerate(notes if any(each != notes[0] for each in notes) else notes[:1]):
        for text in each:
            hypothesis.note(text if notes.count(each) == len(notes) else f"rank {rank}: {text}")
