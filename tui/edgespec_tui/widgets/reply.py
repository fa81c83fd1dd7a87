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
from edgespec_tui.text import clean, count
from edgespec_tui.thought import Part, Thought
from edgespec_tui.widgets.stats_line import StatsLine
from edgespec_tui.widgets.thought_view import ThoughtView
from edgespec_tui.widgets.token_flow import TokenFlow
from edgespec_tui.widgets.token_view import TokenView


class Said(Vertical):
    """What stands beside the name. It draws nothing itself, which spares its lines at every growth."""

    BLANK = True


class Reply(Horizontal):
    """A reply, growing or finished. Only the view that is shown is drawn; the other catches up when it is asked for."""

    BLANK = True

    def __init__(self, *, tokens_shown: bool) -> None:
        super().__init__()
        self.text = ""
        self._rounds: list[RoundDone] = []
        self._thought = Thought()
        self._thoughts = ThoughtView()
        self._tokens_shown = tokens_shown
        self._done = False
        self._flow = TokenView()
        self._line = StatsLine()
        self._markdown: Markdown | None = None
        self._tail = TokenFlow()
        self._blocks: BlockSplitter | None = None

    def compose(self) -> ComposeResult:
        yield Static("model", classes="who")
        with Said(classes="said"):
            yield self._thoughts
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

    @property
    def answer(self) -> str:
        """What it says, without thoughts."""
        return self._thought.answer

    @property
    def rounds(self) -> Sequence[RoundDone]:
        """All rounds so far."""
        return self._rounds

    def show_thoughts(self, shown: bool) -> None:
        """Open or close what the model thought."""
        self._thoughts.show(shown)

    async def show_kept(self, trace: ReplyTrace | None, text: str) -> None:
        """Show a reply that is over, with its trace if there is one."""
        self._rounds = list(trace.rounds) if trace is not None else []
        self.text = "".join(part for event in self._rounds for part in event.texts)
        self._thought.feed(text)
        self._place_all()
        if text.startswith(self.text):
            self._flow.add_text(text[len(self.text) :] if self._rounds else self.answer)
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
        before, answered = self._flow.lines, self.answer
        added = "".join(text for event in rounds for text in event.texts)
        self.text += added
        self._rounds += rounds
        if self._thought.feed(added):
            self._place_all()
            await self.show_tokens(self._tokens_shown)
        else:
            self._place(rounds)
            if self._blocks is not None:
                await self._add_formatted(clean(self.answer[len(answered) :]))
            else:
                self._flow.draw(before)
        self._line.show(mode, stats)
        self._line.display = True

    def _place(self, rounds: Sequence[RoundDone]) -> None:
        """Add rounds to the thoughts if the model is thinking, else to the answer."""
        parts: list[Part] = [(e.round.index, e.round.origins, e.texts, e.rejected, 0) for e in rounds]
        if self._thought.open:
            self._thoughts.add(parts, running=True)
        else:
            for part in parts:
                self._flow.add_tokens(*part)

    def _place_all(self) -> None:
        """Sort all rounds anew into thoughts and answer."""
        self._flow.set_text("")
        self._thoughts.reset()
        thoughts: list[Part] = []
        for thought, part in self._thought.split(self._rounds):
            if thought:
                thoughts.append(part)
            else:
                self._flow.add_tokens(*part)
        if thoughts:
            self._thoughts.add(thoughts, running=self._thought.open)
        self._flow.refresh(layout=True)

    async def finish(self, done: GenerationDone, mode: str, ending: str) -> None:
        """The reply is over: draw it whole, with the engine's own figures."""
        if done.text.startswith(self.text) and len(done.text) > len(self.text):
            before = self._flow.lines
            self._flow.add_text(done.text[len(self.text) :])
            self._flow.draw(before)
        self.text = done.text
        thinking = f"{count(self._thoughts.tokens, 'token')} of them thought" if self._thoughts.tokens else ""
        self._line.show(mode, done.stats, " · ".join(filter(None, (thinking, ending))))
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
            await self._markdown.update(clean(self.answer))

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
        text = clean(self.answer)
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
