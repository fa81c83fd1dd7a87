"""One reply of the model: as marked tokens or as Markdown, and the line of figures under it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Markdown, Static

from edgespec.decoding.stats import GenerationStats
from edgespec.engine.messages import GenerationDone, RoundDone
from edgespec_tui.blocks import BlockSplitter
from edgespec_tui.record import ReplyTrace
from edgespec_tui.text import clean
from edgespec_tui.widgets.stats_line import StatsLine
from edgespec_tui.widgets.token_flow import TokenFlow


class Said(Vertical):
    """What stands beside the name. It draws nothing itself, which spares its lines at every growth."""

    BLANK = True


class Reply(Horizontal):
    """A reply, growing or finished. Only the view that is shown is drawn; the other catches up when it is asked for."""

    BLANK = True

    def __init__(self, *, tokens_shown: bool) -> None:
        super().__init__()
        self.text = ""
        self._tokens_shown = tokens_shown
        self._done = False
        self._flow = TokenFlow()
        self._line = StatsLine()
        self._markdown: Markdown | None = None
        self._tail = TokenFlow()
        self._blocks: BlockSplitter | None = None

    def compose(self) -> ComposeResult:
        yield Static("model", classes="who")
        with Said(classes="said"):
            yield self._flow
            yield self._tail
            yield self._line

    async def on_mount(self) -> None:
        self._line.display = self._tail.display = False
        self._tail.set_streaming(True)
        self._flow.set_streaming(not self._done)
        if not self._tokens_shown:
            await self.show_tokens(False)

    @property
    def line(self) -> str:
        """What stands under the reply."""
        return self._line.said

    async def show_kept(self, trace: ReplyTrace | None, text: str) -> None:
        """Show a reply that is over, with its trace if there is one."""
        for event in trace.rounds if trace is not None else ():
            self._flow.add_round(event)
            self.text += "".join(event.texts)
        if text.startswith(self.text):
            self._flow.add_text(text[len(self.text) :])
        self.text = text
        self._flow.refresh(layout=True)
        await self.end(trace.line if trace is not None else "")
        if not self._tokens_shown:
            await self.show_tokens(False)

    def progress(self, text: str) -> None:
        """Say what the engine does before the first token."""
        self._line.say(text)
        self._line.display = True

    async def add(self, rounds: Sequence[RoundDone], mode: str, stats: GenerationStats) -> None:
        """Draw the rounds that came since the last drawing."""
        before = self._flow.lines
        added = "".join(text for event in rounds for text in event.texts)
        self.text += added
        for event in rounds:
            self._flow.add_round(event)
        if self._blocks is not None:
            await self._add_formatted(clean(added))
        else:
            self._flow.draw(before)
        self._line.show(mode, stats)
        self._line.display = True

    async def finish(self, done: GenerationDone, mode: str, ending: str) -> None:
        """The reply is over: draw it whole, with the engine's own figures."""
        if done.text.startswith(self.text) and len(done.text) > len(self.text):
            before = self._flow.lines
            self._flow.add_text(done.text[len(self.text) :])
            self._flow.draw(before)
        self.text = done.text
        self._line.show(mode, done.stats, ending)
        self._line.display = True
        await self.end()

    async def end(self, remark: str = "") -> None:
        """No more tokens will come."""
        self._done = True
        self._flow.set_streaming(False)
        if remark:
            self._line.say(remark)
            self._line.display = True
        self._blocks = None
        self._tail.display = False
        if self._markdown is not None and not self._tokens_shown:
            await self._markdown.update(clean(self.text))

    async def show_tokens(self, shown: bool) -> None:
        """Switch between the token view and Markdown."""
        self._tokens_shown = shown
        self._flow.display = shown
        self._blocks = None if shown or self._done else BlockSplitter()
        self._tail.display = self._blocks is not None
        if self._markdown is not None:
            self._markdown.display = not shown
        if shown:
            self._flow.refresh(layout=True)
            return
        text = clean(self.text)
        if self._blocks is not None:
            text = self._blocks.feed(text)
            self._tail.set_text(self._blocks.rest)
        if self._markdown is None:
            self._markdown = Markdown(text, open_links=False)
            await self.query_one(Said).mount(self._markdown, before=self._tail)
        else:
            await self._markdown.update(text)

    async def _add_formatted(self, added: str) -> None:
        """Format what is complete, and show the rest as it is."""
        if self._blocks is None or self._markdown is None:
            return
        if complete := self._blocks.feed(added):
            await self._markdown.append(complete)
            self._tail.set_text(self._blocks.rest)
        else:
            before = self._tail.lines
            self._tail.add_text(added)
            self._tail.draw(before)
