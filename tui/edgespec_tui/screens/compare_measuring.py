"""The part of the compare screen that chooses and measures, one mode at a time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer, Static

from edgespec.compare import (
    CompareDone,
    CompareEvent,
    CompareNotice,
    ComparePlan,
    CompareStarted,
    RunFinished,
    RunKey,
    RunPrefill,
    RunRound,
    RunStarted,
)
from edgespec.comparison import Comparison
from edgespec.contestants import Contestant
from edgespec.engine.messages import GenerateOptions, Loaded
from edgespec_tui.messages import ComparisonRefused, EventsWaiting
from edgespec_tui.pacer import Pacer
from edgespec_tui.race import Race, scores_of
from edgespec_tui.runner import Feed
from edgespec_tui.screens.chat_base import HEIGHTS
from edgespec_tui.screens.compare_setup import CompareChoice, CompareSetup
from edgespec_tui.text import one_line
from edgespec_tui.widgets.race_bar import RaceBar
from edgespec_tui.widgets.race_pane import RacePane, name_of
from edgespec_tui.widgets.results import Results
from edgespec_tui.widgets.too_small import TooSmall

if TYPE_CHECKING:
    from edgespec_tui.app import EdgeSpecApp


class CompareMeasuring(Screen[None]):
    """Setup and measurement; what is done with the result is the subclass's part."""

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny-width"), (40, "-column"), (60, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(
        self, loaded: Loaded, options: GenerateOptions, *, system: str | None = None, question: str | None = None
    ) -> None:
        super().__init__()
        self._loaded = loaded
        self._options = options
        self._system = system
        self._question = question
        self._choice: CompareChoice | None = None
        self._feed: Feed[CompareEvent] | None = None
        self._comparison: Comparison | None = None
        self._race: Race | None = None
        self._runs = 0
        self._speeds: dict[Contestant, list[float]] = defaultdict(list)
        self._pacer = Pacer(share=0.04, fastest=0.5)
        self._draw_timer: Timer | None = None

    @property
    def measuring(self) -> bool:
        """Is the engine being measured?"""
        return self._feed is not None

    @property
    def comparison(self) -> Comparison | None:
        """What was measured last."""
        return self._comparison

    @property
    def race(self) -> Race | None:
        """Its replay."""
        return self._race

    @property
    def _app(self) -> EdgeSpecApp:
        return cast("EdgeSpecApp", self.app)

    def compose(self) -> ComposeResult:
        yield Static("", id="title")
        yield Container(id="panes")
        yield RaceBar()
        yield Results()
        yield Static("", id="remark")
        yield Footer(show_command_palette=False, compact=True)
        yield TooSmall()

    def on_mount(self) -> None:
        self._say("")
        self.action_setup()

    def _panes(self) -> dict[Contestant, RacePane]:
        return {pane.contestant: pane for pane in self.query(RacePane)}

    def _say(self, text: str) -> None:
        self.query_one("#remark", Static).update(Content(one_line(text)))

    def _head(self, doing: str) -> None:
        choice = self._choice
        if choice is None:
            return
        heat = self._options.sampling.temperature
        manner = "greedy" if heat == 0 else f"temperature {heat:g}, one seed for all"
        self.query_one("#title", Static).update(
            Content.assemble(
                ("Compare", "bold $text-primary"), f"  {one_line(choice.prompt.id)}  ",
                (f"{choice.max_tokens} tokens · {manner} · {choice.repeats} repeats   ", "$foreground-muted"),
                (doing, "bold $text-accent"),
            )
        )  # fmt: skip

    # Measuring

    def action_setup(self) -> None:
        """Choose prompt and modes."""
        if not self.measuring:
            self.pause_replay()
            setup = CompareSetup(self._loaded, self._options.draft_length, self._choice, self._question)
            self.app.push_screen(setup, self._chosen)

    async def _chosen(self, choice: CompareChoice | None) -> None:
        if choice is not None:
            self._choice = choice
            await self.action_run()
        elif self._choice is None:
            self.dismiss()

    async def action_run(self) -> None:
        """Measure."""
        if (choice := self._choice) is None or self.measuring:
            return
        self.pause_replay()
        self._race = self._comparison = None
        self._runs = 0
        self._speeds.clear()
        self.query_one(RaceBar).show(None)
        self.query_one(Results).clear()
        panes = self.query_one("#panes", Container)
        await panes.remove_children()
        await panes.mount(*(RacePane(contestant) for contestant in choice.contestants))
        panes.set_class(len(choice.contestants) == 3, "-three")
        plan = ComparePlan(
            (choice.prompt,), choice.contestants, choice.repeats,
            replace(self._options, max_tokens=choice.max_tokens), self._system, allow_fallback=True,
        )  # fmt: skip
        self._feed = self._app.runner.compare(plan, self.post_message)
        self._head("warming up")
        self._say("One mode runs at a time, so that none slows another down. Esc stops.")
        self.refresh_bindings()

    def stop_measuring(self) -> None:
        """End it with what there is."""
        self._app.runner.cancel()
        self._head("stopping; if it hangs, Esc once more ends the engine")

    def on_events_waiting(self, message: EventsWaiting) -> None:
        """Draw seldom: what is drawn here is taken from the engine that is being measured."""
        if (wait := self._pacer.wait()) <= 0 or message.now:
            if self._draw_timer is not None:
                self._draw_timer.stop()
                self._draw_timer = None
            self._pacer.drawn()
            for event in self._feed.take() if self._feed is not None else ():
                self._take(event)
        elif self._draw_timer is None:
            self._draw_timer = self.set_timer(wait, lambda: self.post_message(EventsWaiting(now=True)))

    def _take(self, event: CompareEvent) -> None:
        match event:
            case CompareStarted(notices=notices):
                self._runs = event.runs
                if notices:
                    self._say(" ".join(notices))
            case RunStarted(key=key):
                self._begin(key)
            case RunPrefill(key=key, progress=progress):
                self._panes()[key.contestant].say(f"reading: {progress.done:,} of {progress.total:,} tokens")
            case RunRound(key=key, step=step) if not key.warm_up:
                pane = self._panes()[key.contestant]
                if not pane.shown:
                    pane.say("", f"repeat {key.repeat + 1}")
                pane.add([step])
            case RunFinished(key=key, run=run):
                self._finish(key, run.stats.decode_tokens_per_second)
            case CompareNotice(text=text):
                self._say(text)
            case CompareDone():
                self._done(event)

    def _begin(self, key: RunKey) -> None:
        for contestant, pane in self._panes().items():
            pane.running(contestant == key.contestant)
        pane = self._panes()[key.contestant]
        pane.reset()
        if key.warm_up:
            self._head(f"warming up {name_of(key.contestant)}")
            pane.say("warming up, does not count")
        else:
            self._head(f"run {key.number} of {self._runs}")
            pane.say("", f"repeat {key.repeat + 1}")

    def _finish(self, key: RunKey, rate: float | None) -> None:
        pane = self._panes()[key.contestant]
        pane.running(False)
        if key.warm_up:
            pane.say("warm")
        elif rate is not None:
            self._speeds[key.contestant].append(rate)
            rates = ", ".join(f"{rate:.1f}" for rate in self._speeds[key.contestant][-6:])
            pane.say(f"{rates} tok/s")

    def _done(self, done: CompareDone) -> None:
        self._feed = None
        comparison = done.comparison
        for pane in self._panes().values():
            pane.running(False)
        self._say("")
        if done.error is not None:
            self._say(f"x {done.error.message} {done.error.hint} R measures again.")
        if comparison.runs:
            self._comparison = comparison
            self.query_one(Results).show(comparison)
            self._race = Race([score.typical for score in scores_of(comparison)])
            self.start_replay()
        self._head("replay" if comparison.runs else "nothing was measured: R runs it again, P chooses")
        self.refresh_bindings()

    def on_comparison_refused(self, message: ComparisonRefused) -> None:
        """It cannot run: say why."""
        self._feed = None
        self._head("not measured")
        self._say(f"x {message.message} {message.hint}".strip())
        self.refresh_bindings()

    # For the replay

    def start_replay(self) -> None:
        """Something was measured: play it."""

    def pause_replay(self) -> None:
        """Something else comes now."""
