"""One mode in a race: its text, every token marked, and how fast it is."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from edgespec.comparison import Step
from edgespec.contestants import Contestant
from edgespec_tui.modes import label
from edgespec_tui.widgets.token_flow import TokenFlow


def name_of(contestant: Contestant) -> str:
    """A contestant as the app names it."""
    return label(contestant.mode, contestant.draft_length or 0)


class RacePane(Vertical):
    """Draws the steps of a run up to some moment; going back costs as much as starting over."""

    def __init__(self, contestant: Contestant) -> None:
        super().__init__()
        self.contestant = contestant
        self._steps: list[Step] = []
        self._flow = TokenFlow()

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield self._flow
        yield Static("", classes="figures")

    def on_mount(self) -> None:
        self.border_title = Content(name_of(self.contestant))

    @property
    def shown(self) -> int:
        """How many steps are drawn."""
        return len(self._steps)

    @property
    def drafted(self) -> int:
        """Tokens drafted in them."""
        return sum(step.drafted for step in self._steps)

    def reset(self) -> None:
        """Empty it."""
        self._steps.clear()
        self._flow.set_text("")

    def add(self, steps: Sequence[Step]) -> None:
        """Draw some more steps."""
        if steps:
            before = self._flow.lines
            for i, step in enumerate(steps, start=len(self._steps)):
                self._flow.add_tokens(i, step.origins, step.texts, step.rejected)
            self._steps += steps
            self._flow.draw(before)
            self.query_one(VerticalScroll).scroll_end(animate=False)

    def show(self, steps: Sequence[Step]) -> None:
        """Draw these steps and no others."""
        if len(steps) < len(self._steps) or tuple(steps[: len(self._steps)]) != tuple(self._steps):
            self.reset()
        self.add(steps[len(self._steps) :])

    def running(self, running: bool) -> None:
        """Show or hide the caret, and mark the pane."""
        self._flow.set_streaming(running)
        self.set_class(running, "-running")

    def say(self, figures: str, remark: str = "") -> None:
        """The line below the text, and a remark on the edge."""
        self.query_one(".figures", Static).update(Content(figures))
        self.border_subtitle = Content(remark)
