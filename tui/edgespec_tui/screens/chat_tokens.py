"""The part of the chat screen that looks into single tokens."""

from __future__ import annotations

from textual import events, on
from textual.geometry import Region

from edgespec_tui.screens.chat_replies import ChatReplies
from edgespec_tui.tokens import find
from edgespec_tui.widgets.composer import Composer
from edgespec_tui.widgets.reply import Reply
from edgespec_tui.widgets.token_line import TokenLine
from edgespec_tui.widgets.token_view import TokenView


class ChatTokens(ChatReplies):
    """Moves the token cursor from reply to reply, and tells about the token under it."""

    _inspected: TokenView | None = None

    async def action_inspect(self) -> None:
        """Put the cursor into the last reply, or take it away."""
        if self._inspected is not None:
            self._stop_inspecting()
            return
        self._wants_details = True
        if not self._tokens_shown:
            await self._show_tokens(True)
        if views := self._walkable:
            self._inspect(views[-1], at_end=False)
        else:
            self.query_one(Composer).hint("there is no reply to look into")

    async def _show_tokens(self, shown: bool) -> None:
        self._tokens_shown = shown
        for reply in self.query(Reply):
            await reply.show_tokens(shown)

    @property
    def _walkable(self) -> list[TokenView]:
        """Token views with tokens, oldest reply first."""
        return [view for view in self._view.query(TokenView) if view.walkable]

    def _inspect(self, view: TokenView, *, at_end: bool) -> None:
        if self._inspected is not None:
            self._inspected.leave()
        self._inspected = view
        self._view.release_anchor()
        view.enter(at_end=at_end)

    def _stop_inspecting(self, *, focus: bool = True) -> None:
        view, self._inspected = self._inspected, None
        self.query_one(TokenLine).show(None)
        if view is not None and view.is_attached:
            view.leave()
        if focus:
            self.query_one(Composer).focus()
        if self._view.is_vertical_scroll_end:
            self._view.anchor()

    @on(TokenView.Moved)
    def _tell_token(self, message: TokenView.Moved) -> None:
        """Tell about the token, and show it."""
        view = message.view
        if view is not self._inspected:
            return
        reply = next(each for each in view.ancestors if isinstance(each, Reply))
        self.query_one(TokenLine).show(find(reply.rounds, message.place))
        self.call_after_refresh(self._bring_into_view, view, message.line)

    def _bring_into_view(self, view: TokenView, line: int) -> None:
        there = view.region.offset - self._view.region.offset + self._view.scroll_offset
        where = Region(there.x, there.y + line, 1, 1) - self._view.gutter.top_left
        self._view.scroll_to_region(where, animate=False, x_axis=False)

    @on(TokenView.Left)
    def _other_view(self, message: TokenView.Left) -> None:
        """Go on in the reply above or below, or back to the box."""
        if not message.way:
            self._stop_inspecting()
            return
        views = self._walkable
        if message.view in views and 0 <= (i := views.index(message.view) + message.way) < len(views):
            self._inspect(views[i], at_end=message.way < 0)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Whoever goes elsewhere looks into tokens no more."""
        if self._inspected is not None and event.widget is not self._inspected:
            self._stop_inspecting(focus=False)
