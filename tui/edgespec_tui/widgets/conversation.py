"""The conversation: messages, replies and notes, following the end while the reader is there."""

from __future__ import annotations

from textual.containers import VerticalScroll

from edgespec_tui.record import ChatRecord
from edgespec_tui.widgets.note import Note
from edgespec_tui.widgets.reply import Reply
from edgespec_tui.widgets.user_message import UserMessage


class ConversationView(VerticalScroll):
    """Everything that was said, oldest first."""

    HELP = "The conversation. **Page up** and **page down** scroll; at the end it follows the reply."

    def on_mount(self) -> None:
        self.anchor()

    async def note(self, text: str, kind: str = "info", hint: str = "", before: Reply | None = None) -> Note:
        """Add a line that is not part of the chat, at the end or before a reply it is about."""
        note = Note(text, kind, hint)
        await self.mount(note, before=before)
        return note

    async def exchange(self, question: str, *, tokens_shown: bool) -> Reply:
        """Add a question and an empty reply."""
        reply = Reply(tokens_shown=tokens_shown)
        await self.mount(UserMessage(question), reply)
        self.anchor()
        return reply

    async def show_chat(self, record: ChatRecord, *, tokens_shown: bool) -> None:
        """Show a saved chat in place of what is there."""
        await self.clear()
        for i, turn in enumerate(record.turns):
            if turn.role == "user":
                await self.mount(UserMessage(turn.content))
                continue
            reply = Reply(tokens_shown=tokens_shown)
            await self.mount(reply)
            await reply.show_kept(record.traces.get(i), turn.content)
        self.anchor()

    async def take_back(self) -> None:
        """Remove the last question and what came after it."""
        questions = list(self.query(UserMessage))
        if questions:
            await self.remove_children(self.children[self.children.index(questions[-1]) :])

    async def clear(self) -> None:
        """Remove everything."""
        await self.remove_children()
