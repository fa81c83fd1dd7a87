"""The chat: the conversation, the figures of the reply, the box to write in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer

from edgespec.engine.messages import EngineLost, Failed, GenerateOptions, GenerationDone, Loaded, LoadOptions
from edgespec.types import Mode
from edgespec_tui.dialogue import Dialogue
from edgespec_tui.exchange import Exchange, label
from edgespec_tui.figures import LiveFigures
from edgespec_tui.messages import EngineReady, EngineRefused, EventsWaiting
from edgespec_tui.pacer import Pacer
from edgespec_tui.text import one_line, size
from edgespec_tui.widgets.composer import Composer
from edgespec_tui.widgets.conversation import Conversation
from edgespec_tui.widgets.note import Note
from edgespec_tui.widgets.reply import Reply
from edgespec_tui.widgets.stats_panel import StatsPanel
from edgespec_tui.widgets.status_bar import StatusBar
from edgespec_tui.widgets.too_small import TooSmall

if TYPE_CHECKING:
    from edgespec_tui.app import EdgeSpecApp


class ChatScreen(Screen[None]):
    """One chat with one pair of models."""

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny-width"), (40, "-narrow"), (100, "-wide"), (160, "-very-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-tiny-height"), (10, "-short"), (20, "-tall")]  # noqa: RUF012

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", key_display="esc", tooltip="Stop the reply in progress"),
        Binding("f1", "app.help", "Help", tooltip="Keys, marks and figures explained"),
        Binding("f2", "next_mode", "Mode", tooltip="Choose how drafts are made, from the next reply on"),
        Binding("f3", "toggle_tokens", "View", tooltip="Switch between marked tokens and formatted text"),
        Binding("f5", "again", "Again", tooltip="Answer the last message once more"),
        Binding("ctrl+n", "new_chat", "New", priority=True, tooltip="Start a new chat with the same models"),
        Binding("pageup", "scroll(-1)", "Scroll up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Scroll down", show=False, priority=True),
    ]

    def __init__(
        self, load: LoadOptions, generate: GenerateOptions, *, system: str | None, notices: tuple[str, ...]
    ) -> None:
        super().__init__()
        self._load = load
        self._options = generate
        self._notices = notices
        self._dialogue = Dialogue(system)
        self._loaded: Loaded | None = None
        self._exchange: Exchange | None = None
        self._plain_step: float | None = None
        self._tokens_shown = True
        self._pacer = Pacer()
        self._panel_pacer = Pacer(fastest=0.4)
        self._draw_timer: Timer | None = None
        self._loading: Note | None = None

    @property
    def replying(self) -> bool:
        """Is a reply in progress?"""
        return self._exchange is not None

    @property
    def _app(self) -> EdgeSpecApp:
        return cast("EdgeSpecApp", self.app)

    def compose(self) -> ComposeResult:
        yield StatusBar()
        with Horizontal(id="main"):
            yield Conversation()
            yield StatsPanel()
        yield Composer()
        yield Footer(show_command_palette=False, compact=True)
        yield TooSmall()

    async def on_mount(self) -> None:
        self.query_one(Composer).focus()
        for notice in self._notices:
            await self._conversation.note(notice, "warning")
        await self._start_loading()

    @property
    def _conversation(self) -> Conversation:
        return self.query_one(Conversation)

    # Loading

    async def _start_loading(self) -> None:
        target = Path(self._load.target)
        bytes_ = target.stat().st_size if target.is_file() else 0
        what = f"Loading {one_line(target.name)}" + (f" ({size(bytes_)})" if bytes_ else "")
        if self._load.draft is not None:
            what += f" and {one_line(Path(self._load.draft).name)}"
        self._loading = await self._conversation.note(f"{what}. You can write meanwhile.", "busy")
        self.query_one(StatusBar).show_text("loading")
        self._app.runner.load(self._load)

    async def on_engine_ready(self, message: EngineReady) -> None:
        """The models are there."""
        if self._loading is not None:
            await self._loading.remove()
        await self._use(message.loaded)
        target = message.loaded.target
        await self._conversation.note(
            f"Ready in {message.loaded.load_seconds:.1f} s, {target.n_ctx:,} tokens of context. Enter sends, F1 helps."
        )

    async def _use(self, loaded: Loaded, before: Reply | None = None) -> None:
        self._loaded = loaded
        self.query_one(StatusBar).show_models(loaded)
        for notice in loaded.notices:
            await self._conversation.note(notice, "warning", before=before)
        if (reason := loaded.modes.get(self._options.mode)) is not None:
            runs = Mode.LOOKUP if loaded.modes.get(Mode.LOOKUP, "") is None else Mode.PLAIN
            await self._conversation.note(f"{self._options.mode} cannot run: {reason} Using {runs} instead.", "warning")
            self._options = replace(self._options, mode=runs)
        self._show_state()

    async def on_engine_refused(self, message: EngineRefused) -> None:
        """The models could not be loaded; the app stays, to be read and left."""
        if self._loading is not None:
            await self._loading.remove()
        await self._conversation.note(message.message, "error", message.hint)
        self.query_one(StatusBar).show_text("no model")

    # Asking

    @on(Composer.Submitted)
    async def _submitted(self, message: Composer.Submitted) -> None:
        if not message.text.strip():
            return
        composer = self.query_one(Composer)
        if self._loaded is None:
            composer.hint("no model is loaded yet")
        elif self._exchange is not None:
            composer.hint("a reply is running: Esc stops it")
        else:
            composer.remember(message.text)
            await self._ask(message.text)

    async def _ask(self, text: str) -> None:
        self._dialogue.ask(text)
        reply = await self._conversation.exchange(text, tokens_shown=self._tokens_shown)
        number = self._app.runner.generate(self._dialogue.messages, self._options)
        self._exchange = Exchange(number, text, reply, self._options, LiveFigures(self._plain_step))
        self._show_state()

    # Events of the reply

    async def on_events_waiting(self, message: EventsWaiting) -> None:
        """Draw now if a drawing is due, else when it is."""
        if (wait := self._pacer.wait()) <= 0:
            await self._draw()
        elif self._draw_timer is None:
            self._draw_timer = self.set_timer(wait, self._draw)

    async def _draw(self) -> None:
        self._draw_timer = None
        self._pacer.drawn()
        taken = self._app.runner.take()
        exchange = self._exchange
        if exchange is None or not (events := [event for number, event in taken if number == exchange.number]):
            return
        await exchange.take(events)
        if exchange.reloaded is not None:
            await self._use(exchange.reloaded, before=exchange.reply)
            exchange.reloaded = None
        while exchange.notices:
            await self._conversation.note(exchange.notices.pop(0), before=exchange.reply)
        if exchange.ending is not None or self._panel_pacer.wait() <= 0:
            self._panel_pacer.drawn()
            self._show_figures(exchange)
        if exchange.ending is not None:
            await self._ended(exchange)

    def _show_figures(self, exchange: Exchange) -> None:
        self.query_one(StatsPanel).show(exchange.stats, exchange.figures.pace, exchange.why)
        if self._loaded is not None:
            self.query_one(StatusBar).show_context(exchange.context_used, self._loaded.target.n_ctx)

    async def _ended(self, exchange: Exchange) -> None:
        self._exchange = None
        self.query_one(Composer).hint("")
        match exchange.ending:
            case GenerationDone(text=text, stats=stats):
                self._dialogue.answer(text)
                self._plain_step = stats.plain_step_seconds or self._plain_step
            case Failed(message=message, hint=hint):
                await self._give_back(exchange)
                await self._conversation.note(message, "error", hint)
            case EngineLost() as lost:
                self._dialogue.answer(exchange.reply.text)
                await self._conversation.note(_describe(lost), "error", "Your next message, or F5, starts it again.")
        self._show_state()

    async def _give_back(self, exchange: Exchange) -> None:
        """Undo a question that was refused before a token came; keep what was shown otherwise."""
        if exchange.stats.rounds:
            self._dialogue.answer(exchange.reply.text)
            return
        self._dialogue.take_back()
        await self._conversation.take_back()
        self.query_one(Composer).restore(exchange.question)

    def _show_state(self) -> None:
        chosen = label(self._options.mode, self._options.draft_length)
        running = self._exchange.mode if self._exchange is not None else chosen
        self.query_one(StatusBar).show_mode(running, chosen)
        self.refresh_bindings()

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim what would do nothing now."""
        if action == "stop":
            return True if self._exchange is not None else None
        if action in ("again", "new_chat"):
            return True if self._exchange is None and self._dialogue.turns else None
        return True

    def action_stop(self) -> None:
        """Stop the reply; what is there stays."""
        if self._exchange is not None:
            self._app.runner.cancel()
            self.query_one(Composer).hint("stopping")

    def action_next_mode(self) -> None:
        """Go to the next mode that can run."""
        if self._loaded is None:
            self.query_one(Composer).hint("no model is loaded yet")
            return
        can_run = [mode for mode in Mode if self._loaded.modes.get(mode, "unknown") is None]
        if len(can_run) < 2:
            reasons = [f"{mode}: {why}" for mode, why in self._loaded.modes.items() if why]
            self.query_one(Composer).hint(one_line("; ".join(reasons) or "no other mode can run"))
            return
        now = can_run.index(self._options.mode) if self._options.mode in can_run else -1
        self._options = replace(self._options, mode=can_run[(now + 1) % len(can_run)])
        self._show_state()

    async def action_toggle_tokens(self) -> None:
        """Switch every reply between marked tokens and Markdown."""
        self._tokens_shown = not self._tokens_shown
        for reply in self.query(Reply):
            await reply.show_tokens(self._tokens_shown)
        self.query_one(Composer).hint("marked tokens" if self._tokens_shown else "formatted text")

    async def action_again(self) -> None:
        """Ask the last question once more."""
        if self._exchange is None and (question := self._dialogue.take_back()) is not None:
            await self._conversation.take_back()
            await self._ask(question)

    async def action_new_chat(self) -> None:
        """Forget the conversation; models, mode and settings stay."""
        if self._exchange is None:
            self._dialogue = Dialogue(self._dialogue.system)
            await self._conversation.clear()
            self.query_one(StatsPanel).show(None, None, "")
            self._show_state()

    def action_scroll(self, pages: int) -> None:
        """Scroll the conversation wherever the focus is."""
        if pages < 0:
            self._conversation.scroll_page_up(animate=False)
        else:
            self._conversation.scroll_page_down(animate=False)


def _describe(lost: EngineLost) -> str:
    how = f"was killed by {lost.signal}" if lost.signal else f"ended with code {lost.exit_code}"
    last = f" Its last words: {one_line(lost.log[-1])}" if lost.log else ""
    return f"The engine process {how}. What it had written is kept.{last}"
