"""llama.cpp's log in memory and in a file."""

from __future__ import annotations

from pathlib import Path

from edgespec.llama.logs import LEVEL_CONTINUE, LEVEL_DEBUG, LEVEL_ERROR, LogRing

INFO = 2


def test_lines_that_arrive_in_pieces_are_joined() -> None:
    ring = LogRing()
    ring.write(INFO, "load")
    ring.write(LEVEL_CONTINUE, "ing")
    ring.write(LEVEL_CONTINUE, " done\nnext\n")
    assert ring.lines() == ("loading done", "next")


def test_a_new_message_ends_an_unfinished_line() -> None:
    ring = LogRing()
    ring.write(INFO, "....")
    ring.write(LEVEL_ERROR, "broken\n")
    assert ring.lines() == ("....", "broken")
    assert ring.take_errors() == ("broken",)
    assert ring.take_errors() == ()


def test_only_the_last_lines_are_kept() -> None:
    ring = LogRing(size=3)
    for i in range(10):
        ring.write(INFO, f"{i}\n")
    assert ring.lines() == ("7", "8", "9")


def test_blank_and_debugging_lines_are_dropped() -> None:
    ring = LogRing()
    ring.write(INFO, "\n  \nx\n")
    ring.write(LEVEL_DEBUG, "flood")
    ring.write(LEVEL_CONTINUE, "ing\n")
    assert ring.lines() == ("x",)


def test_lines_also_go_to_a_file(tmp_path: Path) -> None:
    ring, file = LogRing(), tmp_path / "llama.log"
    ring.to_file(file)
    ring.write(LEVEL_ERROR, "naïve \ud800 text\n")
    ring.to_file(None)
    ring.write(LEVEL_ERROR, "later\n")
    assert file.read_text(encoding="utf-8") == "naïve ? text\n"


def test_a_log_file_that_cannot_be_written_is_given_up_and_said_so() -> None:
    ring = LogRing()
    ring.to_file(Path("/dev/full"))
    ring.write(INFO, "one\n")
    ring.write(INFO, "two\n")
    assert ring.lines()[0] == "one"
    assert "log file abandoned" in ring.lines()[1]
