"""One reply of the model: as marked tokens or as Markdown, and the line of figures under it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownStream

from edgespec.decoding.stats import GenerationStats
from edgespec.engine.messages import GenerationDone, RoundDone
from edgespec_tui.text import clean
from edgespec_tui.widgets.stats_line import StatsLine
from edgespec_tui.widgets.token_flow import TokenFlow


class Reply(Horizontal):
    """A reply, growing or finished. Only the view that is shown is drawn; the other catches up when it is asked for."""

    def __init__(self, *, tokens_shown: bool) -> None:
        super().__init__()
        self.text = ""
        self._tokens_shown = tokens_shown
        self._done = False
        self._flow = TokenFlow()
        self._line = StatsLine()
        self._markdown: Markdown | None = None
        self._stream: MarkdownStream | None = None

    def compose(self) -> ComposeResult:
        yield Static("model", classes="who")
        with Vertical(classes="said"):
            yield self._flow
            yield self._line

    async def on_mount(self) -> None:
        self._line.display = False
        self._flow.set_streaming(not self._done)
        if not self._tokens_shown:
            await self.show_tokens(False)

    def progress(self, text: str) -> None:
        """Say what the engine does before the first token."""
        self._line.update(text)
        self._line.display = True

    async def add(self, rounds: Sequence[RoundDone], mode: str, stats: GenerationStats) -> None:
        """Draw the rounds that came since the last drawing."""
        before = self._flow.lines
        added = "".join(text for event in rounds for text in event.texts)
        self.text += added
        for event in rounds:
            self._flow.add_round(event)
        if self._stream is not None:
            await self._stream.write(clean(added))
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
            self._line.update(remark)
            self._line.display = True
        if self._stream is not None and self._markdown is not None:
            stream, self._stream = self._stream, None
            await stream.stop()
            await self._markdown.update(clean(self.text))

    async def show_tokens(self, shown: bool) -> None:
        """Switch between the token view and Markdown."""
        self._tokens_shown = shown
        self._flow.display = shown
        if shown:
            if self._stream is not None:
                stream, self._stream = self._stream, None
                await stream.stop()
            if self._markdown is not None:
                self._markdown.display = False
            self._flow.refresh(layout=True)
            return
        if self._markdown is None:
            self._markdown = Markdown(clean(self.text), open_links=False)
            await self._line.parent.mount(self._markdown, before=self._line)  # type: ignore[union-attr]
        else:
            self._markdown.display = True
            await self._markdown.update(clean(self.text))
        if not self._done:
            self._stream = Markdown.get_stream(self._markdown)
