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
        self._source: Sequence[Step] = ()
        self._said = ("", "", "")
        self._flow = TokenFlow()
        self.shown = 0
        """How many steps are drawn."""
        self.tokens = 0
        """Tokens emitted in them."""

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield self._flow
        yield Static("", classes="figures")

    def on_mount(self) -> None:
        self.border_title = Content(name_of(self.contestant))

    def reset(self) -> None:
        """Empty it."""
        self._source, self.shown, self.tokens = (), 0, 0
        self._flow.set_text("")

    def add(self, steps: Sequence[Step]) -> None:
        """Draw some more steps."""
        if steps:
            before = self._flow.lines
            for i, step in enumerate(steps, start=self.shown):
                self._flow.add_tokens(i, step.origins, step.texts, step.rejected)
                self.tokens += len(step.tokens)
            self.shown += len(steps)
            self._flow.draw(before)
            self.query_one(VerticalScroll).scroll_end(animate=False)

    def show(self, steps: Sequence[Step], count: int) -> None:
        """Draw the first `count` of these steps and no others. Going on costs what is new, however much is there."""
        if steps is not self._source or count < self.shown:
            self.reset()
            self._source = steps
        self.add(steps[self.shown : count])

    def running(self, running: bool) -> None:
        """Show or hide the caret, and mark the pane."""
        if running != self.has_class("-running"):
            self._flow.set_streaming(running)
            self.set_class(running, "-running")

    def say(self, figures: str, remark: str = "", gain: str = "") -> None:
        """The line below the text, a remark on the edge, what stands behind the name; draws what changed."""
        said = (figures, remark, gain)
        if figures != self._said[0]:
            self.query_one(".figures", Static).update(Content(figures), layout=False)
        if remark != self._said[1]:
            self.border_subtitle = Content(remark)
        if gain != self._said[2]:
            self.border_title = Content(name_of(self.contestant) + gain)
        self._said = said
