"""What every part of the chat screen builds on: its widgets, its state, and what is said beside the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer

from edgespec.engine.messages import GenerateOptions, Loaded, LoadOptions
from edgespec.errors import EdgeSpecError
from edgespec_tui.archive import Archive
from edgespec_tui.exchange import Exchange
from edgespec_tui.modes import label
from edgespec_tui.pacer import Pacer
from edgespec_tui.record import ChatRecord
from edgespec_tui.text import one_line
from edgespec_tui.widgets.composer import Composer
from edgespec_tui.widgets.conversation import ConversationView
from edgespec_tui.widgets.note import Note
from edgespec_tui.widgets.reply import Reply
from edgespec_tui.widgets.stats_panel import StatsPanel
from edgespec_tui.widgets.status_bar import StatusBar, model_name
from edgespec_tui.widgets.token_line import TokenLine
from edgespec_tui.widgets.too_small import TooSmall

if TYPE_CHECKING:
    from edgespec_tui.app import EdgeSpecApp

WIDTHS = [(0, "-tiny-width"), (40, "-narrow"), (100, "-wide"), (160, "-very-wide")]
HEIGHTS = [(0, "-tiny-height"), (10, "-short"), (20, "-tall")]


class ChatBase(Screen[None]):
    """Widgets and state of one chat with one pair of models."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def __init__(
        self,
        load: LoadOptions,
        generate: GenerateOptions,
        *,
        system: str | None,
        notices: tuple[str, ...],
        seeded: bool,
        allow_fallback: bool,
    ) -> None:
        super().__init__()
        self._load = load
        self._load_before: LoadOptions | None = None
        self._refused_draft: str | None = None
        self._refused_before: str | None = None
        self._never_loaded = "The app was left before a model was loaded."
        self._options = generate
        self._notices = notices
        self._seeded = seeded
        self._allow_fallback = allow_fallback
        self._told: set[str] = set()
        self._chat = ChatRecord(system)
        self._archive = Archive()
        self._loaded: Loaded | None = None
        self._exchange: Exchange | None = None
        self._plain_step: float | None = None
        self._context_tokens: int | None = 0
        self._tokens_shown = True
        self._wants_details = False
        self._thoughts_shown = False
        self._pacer = Pacer()
        self._panel_pacer = Pacer(fastest=0.4)
        self._draw_timer: Timer | None = None
        self._loading: Note | None = None
        self._sent_early: str | None = None  # a message for which Enter was pressed while the models were loading

    @property
    def replying(self) -> bool:
        """Is a reply in progress?"""
        return self._exchange is not None

    @property
    def never_loaded(self) -> str:
        """Why no model was ever loaded; "" if one was."""
        return self._never_loaded

    @property
    def _app(self) -> EdgeSpecApp:
        return cast("EdgeSpecApp", self.app)

    def compose(self) -> ComposeResult:
        yield StatusBar()
        with Horizontal(id="main"):
            yield ConversationView()
            yield StatsPanel()
        yield TokenLine()
        yield Composer()
        yield Footer(show_command_palette=False, compact=True)
        yield TooSmall()

    @property
    def _view(self) -> ConversationView:
        return self.query_one(ConversationView)

    @property
    def _missing_draft(self) -> tuple[str, ...]:
        """A sentence on the draft model that was asked for and refused; none if none was."""
        return (f"The draft model {one_line(self._refused_draft)} was refused.",) if self._refused_draft else ()

    async def _tell(self, notice: str, kind: str, before: Reply | None = None) -> None:
        """Say a notice, once a chat."""
        if notice not in self._told:
            self._told.add(notice)
            await self._view.note(notice, kind, before=before)

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
        self._show_context()
        self.refresh_bindings()

    def _show_context(self) -> None:
        """Say how full the context is: nothing without a model, a dash where these models have not read the chat."""
        used = self._context_tokens
        if self._exchange is not None and self._exchange.stats.prompt_tokens:
            used = self._exchange.context_used
        status = self.query_one(StatusBar)
        if self._loaded is None:
            status.clear_context()
        else:
            status.show_context(used, self._loaded.target.n_ctx)

    def _forget_context(self) -> None:
        """What the chat takes of the context is not known any more, unless there is nothing in it."""
        self._context_tokens = None if self._chat.turns else 0
