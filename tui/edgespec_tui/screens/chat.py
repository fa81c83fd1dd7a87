"""The chat: the conversation, the figures of the reply, the box to write in."""

from __future__ import annotations

import secrets
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

from edgespec.engine.messages import MAX_DRAFT_LENGTH, GenerateOptions, GenerationDone, Loaded, LoadOptions
from edgespec.errors import EdgeSpecError
from edgespec_tui.archive import Archive
from edgespec_tui.attach import expand
from edgespec_tui.exchange import Exchange
from edgespec_tui.figures import LiveFigures
from edgespec_tui.messages import EngineReady, EngineRefused, EventsWaiting
from edgespec_tui.modes import fallback, following, label, refusals
from edgespec_tui.pacer import Pacer
from edgespec_tui.record import ChatRecord
from edgespec_tui.screens.chats import ChatsScreen
from edgespec_tui.screens.settings import Choices, SettingsScreen
from edgespec_tui.text import one_line, size
from edgespec_tui.widgets.composer import Composer
from edgespec_tui.widgets.conversation import ConversationView
from edgespec_tui.widgets.note import Note
from edgespec_tui.widgets.reply import Reply
from edgespec_tui.widgets.stats_panel import StatsPanel
from edgespec_tui.widgets.status_bar import StatusBar, model_name
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
        Binding("f7", "draft_length(-1)", "Shorter drafts", show=False, priority=True, tooltip="Draft fewer tokens"),
        Binding("f8", "draft_length(1)", "Longer drafts", show=False, priority=True, tooltip="Draft more tokens"),
        Binding("f9", "settings", "Settings", show=False, tooltip="System text, temperature, seed, longest reply"),
        Binding("ctrl+t", "edit", "Edit", show=False, tooltip="Change the last message and send it again"),
        Binding("ctrl+r", "copy_reply", "Copy reply", show=False, tooltip="Copy the last reply to the clipboard"),
        Binding("ctrl+o", "chats", "Chats", show=False, tooltip="Open, rename, delete or export a saved chat"),
        Binding("ctrl+n", "new_chat", "New", priority=True, tooltip="Start a new chat with the same models"),
        Binding("pageup", "scroll(-1)", "Scroll up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Scroll down", show=False, priority=True),
    ]

    def __init__(
        self,
        load: LoadOptions,
        generate: GenerateOptions,
        *,
        system: str | None,
        notices: tuple[str, ...],
        seeded: bool,
    ) -> None:
        super().__init__()
        self._load = load
        self._options = generate
        self._notices = notices
        self._seeded = seeded
        self._told: set[str] = set()
        self._chat = ChatRecord(system)
        self._archive = Archive()
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
            yield ConversationView()
            yield StatsPanel()
        yield Composer()
        yield Footer(show_command_palette=False, compact=True)
        yield TooSmall()

    async def on_mount(self) -> None:
        self.query_one(Composer).focus()
        for notice in self._notices:
            await self._view.note(notice, "warning")
        await self._start_loading()

    @property
    def _view(self) -> ConversationView:
        return self.query_one(ConversationView)

    # Loading

    async def _start_loading(self) -> None:
        target = Path(self._load.target)
        bytes_ = target.stat().st_size if target.is_file() else 0
        what = f"Loading {one_line(target.name)}" + (f" ({size(bytes_)})" if bytes_ else "")
        if self._load.draft is not None:
            what += f" and {one_line(Path(self._load.draft).name)}"
        self._loading = await self._view.note(f"{what}. You can write meanwhile.", "busy")
        self.query_one(StatusBar).show_text("loading")
        self._app.runner.load(self._load)

    async def on_engine_ready(self, message: EngineReady) -> None:
        """The models are there."""
        if self._loading is not None:
            await self._loading.remove()
        await self._use(message.loaded)
        target = message.loaded.target
        await self._view.note(
            f"Ready in {message.loaded.load_seconds:.1f} s, {target.n_ctx:,} tokens of context. Enter sends, F1 helps."
        )

    async def _use(self, loaded: Loaded, before: Reply | None = None) -> None:
        self._loaded = loaded
        self.query_one(StatusBar).show_models(loaded)
        for notice in loaded.notices:
            await self._tell(notice, "warning", before)
        if (instead := fallback(loaded, self._options.mode)) is not None:
            self._options = replace(self._options, mode=instead[0])
            await self._view.note(instead[1], "warning")
        self._show_state()

    async def _tell(self, notice: str, kind: str, before: Reply | None = None) -> None:
        """Say a notice, once a chat."""
        if notice not in self._told:
            self._told.add(notice)
            await self._view.note(notice, kind, before=before)

    async def on_engine_refused(self, message: EngineRefused) -> None:
        """The models could not be loaded; the app stays, to be read and left."""
        if self._loading is not None:
            await self._loading.remove()
        await self._view.note(message.message, "error", message.hint)
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
            try:
                text = expand(message.text)
            except EdgeSpecError as error:
                await self._view.note(error.message, "error", error.hint)
                return
            composer.remember(message.text)
            await self._ask(text, message.text)

    async def _ask(self, text: str, written: str) -> None:
        self._chat.ask(text)
        await self._save()
        if not self._seeded:
            seed = secrets.randbelow(2**31)
            self._options = replace(self._options, sampling=replace(self._options.sampling, seed=seed))
        reply = await self._view.exchange(text, tokens_shown=self._tokens_shown)
        number = self._app.runner.generate(self._chat.conversation.messages, self._options)
        self._exchange = Exchange(number, written, reply, self._options, LiveFigures(self._plain_step))
        self._show_state()

    # Events of the reply

    async def on_events_waiting(self, message: EventsWaiting) -> None:
        """Draw if a drawing is due, else when it is.

        The timer only asks for it: a timer's callback runs beside the messages, and two drawings at once would mix up
        the order of the rounds.
        """
        if (wait := self._pacer.wait()) <= 0 or message.now:
            if self._draw_timer is not None:
                self._draw_timer.stop()
                self._draw_timer = None
            await self._draw()
        elif self._draw_timer is None:
            self._draw_timer = self.set_timer(wait, lambda: self.post_message(EventsWaiting(now=True)))

    async def _draw(self) -> None:
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
            await self._tell(exchange.notices.pop(0), "info", exchange.reply)
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
        if isinstance(exchange.ending, GenerationDone):
            self._chat.answer(exchange.ending.text, exchange.trace)
            self._plain_step = exchange.ending.stats.plain_step_seconds or self._plain_step
        elif exchange.stats.rounds:
            self._chat.answer(exchange.reply.text, exchange.trace)
        else:
            await self._take_back()
            self.query_one(Composer).restore(exchange.question)
        if (failure := exchange.failure)[0]:
            await self._view.note(failure[0], "error", failure[1])
        await self._save()
        self._show_state()

    async def _save(self) -> None:
        """Keep the chat; if the disk refuses, say so once and go on."""
        if self._loaded is not None:
            self._chat.model = model_name(self._loaded.target)
        try:
            self._archive.save(self._chat)
        except EdgeSpecError as error:
            await self._tell(f"This chat is not saved: {error.message}", "warning")

    async def _take_back(self) -> None:
        """Undo the last question and what was answered."""
        self._chat.undo()
        await self._view.take_back()
        await self._save()

    def _show_state(self) -> None:
        chosen = label(self._options.mode, self._options.draft_length)
        running = self._exchange.mode if self._exchange is not None else chosen
        self.query_one(StatusBar).show_mode(running, chosen)
        self.refresh_bindings()

    async def on_unmount(self) -> None:
        """Keep what there is of a reply that leaving the app cuts off."""
        if (exchange := self._exchange) is not None and exchange.rounds:
            self._chat.answer(exchange.reply.text, exchange.trace)
            await self._save()

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim what would do nothing now."""
        if action == "stop":
            return True if self._exchange is not None else None
        if action in ("again", "edit", "new_chat", "copy_reply"):
            return True if self._exchange is None and self._chat.turns else None
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
        if (mode := following(self._loaded, self._options.mode)) is None:
            self.query_one(Composer).hint(one_line(refusals(self._loaded)))
            return
        self._options = replace(self._options, mode=mode)
        self._show_state()

    def action_draft_length(self, change: int) -> None:
        """Draft more or fewer tokens a round, from the next reply on."""
        length = min(max(self._options.draft_length + change, 1), MAX_DRAFT_LENGTH)
        self._options = replace(self._options, draft_length=length)
        self.query_one(Composer).hint(f"at most {length} drafted tokens a round")
        self._show_state()

    async def action_toggle_tokens(self) -> None:
        """Switch every reply between marked tokens and Markdown."""
        self._tokens_shown = not self._tokens_shown
        for reply in self.query(Reply):
            await reply.show_tokens(self._tokens_shown)
        self.query_one(Composer).hint("marked tokens" if self._tokens_shown else "formatted text")

    async def action_again(self) -> None:
        """Ask the last question once more."""
        if (question := self._last_question) is not None:
            await self._take_back()
            await self._ask(question, question)

    async def action_edit(self) -> None:
        """Put the last question back into the box, to be changed and sent again."""
        if (question := self._last_question) is not None:
            await self._take_back()
            self.query_one(Composer).restore(question)
            self._show_state()

    def action_chats(self) -> None:
        """List the saved chats."""
        if self._exchange is not None:
            self.query_one(Composer).hint("a reply is running: Esc stops it")
            return
        self.app.push_screen(ChatsScreen(self._archive, self._chat), self._open_chat)

    async def _open_chat(self, record: ChatRecord | None) -> None:
        if record is not None:
            self._chat = record
            await self._view.show_chat(record, tokens_shown=self._tokens_shown)
            self.query_one(StatsPanel).show(None, None, "")
            self._show_state()

    def action_settings(self) -> None:
        """Change system text, sampling and lengths."""
        choices = Choices(self._options, self._chat.system, self._seeded)
        self.app.push_screen(SettingsScreen(choices), self._use_choices)

    def _use_choices(self, choices: Choices | None) -> None:
        if choices is not None:
            self._options = replace(choices.options, mode=self._options.mode)
            self._seeded = choices.seeded
            self._chat.set_system(choices.system)
            self._show_state()

    def action_copy_reply(self) -> None:
        """Copy the last reply, as the model wrote it."""
        if replies := list(self.query(Reply)):
            self.app.copy_to_clipboard(replies[-1].text)
            self.query_one(Composer).hint("reply copied")

    async def action_new_chat(self) -> None:
        """Forget the conversation; models, mode and settings stay."""
        if self._exchange is None:
            self._chat = ChatRecord(self._chat.system)
            self._told.clear()
            await self._view.clear()
            self.query_one(StatsPanel).show(None, None, "")
            self._show_state()

    @property
    def _last_question(self) -> str | None:
        """The last user turn, if nothing is being answered."""
        return self._chat.last_question if self._exchange is None else None

    def action_scroll(self, pages: int) -> None:
        """Scroll the conversation wherever the focus is."""
        if pages < 0:
            self._view.scroll_page_up(animate=False)
        else:
            self._view.scroll_page_down(animate=False)

