"""What F1 shows: keys, modes, marks and figures."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

Rows = tuple[tuple[str, str], ...]

KEYS: Rows = (
    ("Enter", "send the message"),
    ("Ctrl+J, Shift+Enter", "start a new line"),
    ("Up, Down", "in an empty box: messages sent before"),
    ("Ctrl+U, Ctrl+Z", "empty the box; bring back what was in it"),
    ("Esc", "stop the reply; what is there stays. Once more: end an engine that does not stop"),
    ("F2", "next mode: how drafts are made, from the next reply on"),
    ("F3", "marked tokens, or formatted text"),
    ("F4", "compare: race modes on one prompt, on this chat's last message if you like"),
    ("F5", "answer the last message once more; load the models again if the engine ended"),
    ("F6", "models: switch, choose a draft model, download"),
    ("F7, F8", "draft fewer or more tokens a round"),
    ("F9", "settings: system text, sampling, lengths"),
    ("Ctrl+T", "edit the last message and send it again"),
    ("Ctrl+R", "copy the last reply"),
    ("Ctrl+L", "copy the last block of code"),
    ("F10", "show or hide what a model thought before it answered"),
    (
        "F12",
        "look into tokens: arrows move a cursor, a line tells what the models thought of each; where these figures "
        "cost over 1% of the speed, they come with replies after the first F12",
    ),
    ("Ctrl+G", "the last reply pass by pass: where each token came from"),
    ("/file PATH QUESTION", "ask about a text file"),
    ("Ctrl+O", "saved chats: open, rename, delete, export"),
    ("Ctrl+N", "new chat with the same models"),
    ("Page up, Page down", "scroll; at the end the view follows the reply"),
    ("Ctrl+P", "all commands, themes too"),
    ("Ctrl+C", "copy what is selected, else stop the reply, else quit if pressed twice"),
    ("Ctrl+Q", "quit"),
)
MODES: Rows = (
    ("plain", "nobody drafts; every token is a pass of its own"),
    ("lookup", "drafts are copied from text that occurred before: good for code, edits, summaries"),
    ("draft", "a small model drafts for the large one"),
    ("auto", "chosen while it runs, by what pays"),
)
MARKS: Rows = (
    ("underlined", "accepted draft: guessed, and confirmed by the target"),
    ("bold", "corrected: the target's own token in place of a wrong guess"),
    ("dot behind", "bonus: the target's own token after a draft that was right to its end"),
    ("~struck through~", "thrown away: guessed wrong, not part of the text"),
    ("no mark", "plain: there was no guess"),
    ("thin bar", "while F12 is on: a border between two passes"),
)
COMPARE: Rows = (
    ("Enter, F4", "start: each mode runs alone, in turns, from empty caches"),
    ("Space", "play, pause, play again: all modes at the speed that was measured"),
    ("Left, Right, Home, End", "earlier, later, start, end; a click on the line goes there"),
    ("S", "slower or faster replay"),
    ("R, P", "measure again; choose prompt and modes"),
    ("E", "export as JSON and Markdown into the current folder"),
    ("Esc", "stop measuring; then back to the chat"),
)
MODELS: Rows = (
    ("Enter", "load it: what a pair names as its draft model comes with it"),
    ("T, N", "let it draft for the model that is loaded; go on without a draft model"),
    ("C", "check: can it draft for the model that is loaded, and if not, why"),
    ("D, Y, S", "download, agree, stop; a download goes on when the screen is left"),
    ("I", "inspect: what the header says, and whether it fits this machine"),
    ("X, Y", "remove from this disk, after a yes"),
    ("/", "show only lines that contain these words; Esc shows all"),
)
FIGURES: Rows = (
    ("1.62x plain", "measured speed over that of plain decoding on this machine at this context"),
    ("passes", "passes of the target model; plain decoding needs one for each token"),
    ("acceptance", "accepted / drafted, shown from 20 drafted tokens on"),
    ("τ (tau)", "tokens per pass, corrected and bonus tokens included; 1.00 is no gain"),
    ("α (alpha)", "accepted / examined: how likely the next drafted token is right"),
    ("by position", "how often the first, second, third ... drafted token was kept"),
    ("target 2.1%, rank 4", "F12: the target's probability of a token and its rank among all, before any sampling"),
    ("draft model 61.0%", "F12: how probable the draft model found what it drafted"),
)
SECTIONS = (
    ("Keys", KEYS), ("Modes", MODES), ("Marks", MARKS), ("Figures", FIGURES), ("Compare (F4)", COMPARE),
    ("Models (F6)", MODELS),
)  # fmt: skip
IDEA = (
    "A cheap drafter guesses the next few tokens, the target model checks all of them in one pass, and what it agrees "
    "with is kept. The text is the same as without drafts; only the speed changes."
)


class HelpScreen(ModalScreen[None]):
    """Keys, modes, marks and figures on one page."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,q", "dismiss", "Back", key_display="esc")]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(Content(IDEA), classes="idea")
            for title, rows in SECTIONS:
                yield Static(Content(title), classes="heading")
                for name, meaning in rows:
                    with Horizontal(classes="row"):
                        yield Static(Content(name), classes="name")
                        yield Static(Content(meaning), classes="meaning")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one("#help").focus()
