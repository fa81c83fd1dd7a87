"""The chat: the conversation, the figures of the reply, the box to write in."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from edgespec.engine.messages import MAX_DRAFT_LENGTH, LoadOptions
from edgespec_tui.blocks import code_blocks
from edgespec_tui.modes import following, refusals
from edgespec_tui.record import ChatRecord
from edgespec_tui.screens.chat_tokens import ChatTokens
from edgespec_tui.screens.chats import ChatsScreen
from edgespec_tui.screens.compare import CompareScreen
from edgespec_tui.screens.models import ModelsScreen
from edgespec_tui.screens.rounds import RoundsScreen
from edgespec_tui.screens.settings import Choices, SettingsScreen
from edgespec_tui.text import one_line
from edgespec_tui.widgets.composer import Composer
from edgespec_tui.widgets.reply import Reply
from edgespec_tui.widgets.stats_panel import Figures, StatsPanel


class ChatScreen(ChatTokens):
    """One chat with one pair of models; what its keys do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", key_display="esc", tooltip="Stop the reply in progress"),
        Binding("f1", "app.help", "Help", tooltip="Keys, marks and figures explained"),
        Binding("f2", "next_mode", "Mode", tooltip="Choose how drafts are made, from the next reply on"),
        Binding("f3", "toggle_tokens", "View", tooltip="Switch between marked tokens and formatted text"),
        Binding("f4", "compare", "Compare", tooltip="Race modes against each other on one prompt"),
        Binding("f5", "again", "Again", show=False, tooltip="Answer the last message once more"),
        Binding("f6", "models", "Models", tooltip="Other models: on this disk, or to download"),
        Binding("f12", "inspect", "Token", tooltip="Look into single tokens: probabilities, rank, origin, pass"),
        Binding("f7", "draft_length(-1)", "Shorter drafts", show=False, priority=True, tooltip="Draft fewer tokens"),
        Binding("f8", "draft_length(1)", "Longer drafts", show=False, priority=True, tooltip="Draft more tokens"),
        Binding("f9", "settings", "Settings", show=False, tooltip="System text, temperature, seed, longest reply"),
        Binding("ctrl+t", "edit", "Edit", show=False, tooltip="Change the last message and send it again"),
        Binding("ctrl+r", "copy_reply", "Copy reply", show=False, tooltip="Copy the last reply to the clipboard"),
        Binding("ctrl+l", "copy_code", "Copy code", show=False, tooltip="Copy the last block of code"),
        Binding("ctrl+g", "rounds", "Rounds", show=False, tooltip="Pass by pass: where each token came from"),
        Binding("f10", "thoughts", "Thoughts", show=False, tooltip="Show or hide what the model thought"),
        Binding("ctrl+o", "chats", "Chats", show=False, tooltip="Open, rename, delete or export a saved chat"),
        Binding("ctrl+n", "new_chat", "New chat", show=False, priority=True, tooltip="New chat with the same models"),
        Binding("pageup", "scroll(-1)", "Scroll up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Scroll down", show=False, priority=True),
    ]

    async def on_mount(self) -> None:
        self.query_one(Composer).focus()
        for notice in self._notices:
            await self._view.note(notice, "warning")
        await self._start_loading()

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim what would do nothing now."""
        if action == "stop":
            return self._exchange is not None or self._loading is not None
        if action == "again":
            return self._without_model or (self._exchange is None and bool(self._chat.turns))
        if action == "inspect":
            return self._exchange is None and bool(self._chat.turns)
        if action in ("edit", "new_chat", "copy_reply"):
            return True if self._exchange is None and self._chat.turns else None
        return True

    def action_stop(self) -> None:
        """Stop the reply, or the loading; what is there stays."""
        if self._loading is not None:
            self._app.runner.end_engine()
        elif self._exchange is not None:
            self._app.runner.cancel()
            self.query_one(Composer).hint("stopping; if it hangs, Esc once more ends the engine")

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
        if self._inspected is not None:
            self._stop_inspecting()
        await self._show_tokens(not self._tokens_shown)
        self.query_one(Composer).hint("marked tokens" if self._tokens_shown else "formatted text")

    async def action_again(self) -> None:
        """Ask the last question once more; without a model, load it once more."""
        if self._without_model:
            await self._start_loading()
        elif (question := self._last_question) is not None:
            await self._take_back()
            await self._ask(question, question)

    async def action_edit(self) -> None:
        """Put the last question back into the box, to be changed and sent again."""
        if (question := self._last_question) is not None:
            await self._take_back()
            self._forget_context()
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
            self._forget_context()
            await self._view.show_chat(record, tokens_shown=self._tokens_shown)
            self.query_one(StatsPanel).show(Figures())
            self._show_state()

    def action_compare(self) -> None:
        """Race modes, on this chat's last message or another prompt."""
        if self._loaded is None:
            self.query_one(Composer).hint("no model is loaded yet")
        elif self._exchange is not None:
            self.query_one(Composer).hint("a reply is running: Esc stops it")
        else:
            question = self._chat.last_question
            self.app.push_screen(
                CompareScreen(self._loaded, self._options, system=self._chat.system, question=question)
            )

    def action_models(self) -> None:
        """Choose other models, or fetch some."""
        self.app.push_screen(ModelsScreen(self._load), self._use_models)

    async def _use_models(self, load: LoadOptions | None) -> None:
        if load is not None:
            await self.switch_models(load)

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
            self.app.copy_to_clipboard(replies[-1].answer)
            self.query_one(Composer).hint("reply copied")

    def action_copy_code(self) -> None:
        """Copy the last block of code that a reply holds."""
        for reply in reversed(self.query(Reply)):
            if blocks := code_blocks(reply.answer):
                self.app.copy_to_clipboard(blocks[-1])
                self.query_one(Composer).hint("code copied")
                return
        self.query_one(Composer).hint("there is no block of code")

    def action_thoughts(self) -> None:
        """Show or hide what the model thought before it answered."""
        self._thoughts_shown = not self._thoughts_shown
        for reply in self.query(Reply):
            reply.show_thoughts(self._thoughts_shown)

    def on_thought_view_toggled(self) -> None:
        """A click does the same."""
        self.action_thoughts()

    def action_rounds(self) -> None:
        """Show the last reply pass by pass."""
        if self._exchange is not None:
            rounds = self._exchange.rounds
        else:
            traces = self._chat.traces
            rounds = list(traces[max(traces)].rounds) if traces else []
        if rounds:
            self.app.push_screen(RoundsScreen(rounds))
        else:
            self.query_one(Composer).hint("there is no reply to look into")

    async def action_new_chat(self) -> None:
        """Forget the conversation; models, mode and settings stay."""
        if self._exchange is None:
            self._chat = ChatRecord(self._chat.system)
            self._forget_context()
            self._told.clear()
            await self._view.clear()
            self.query_one(StatsPanel).show(Figures())
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
