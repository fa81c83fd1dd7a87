"""Trying a small model on this machine: does it run, how fast, and can guessing ahead pay?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from edgespec.errors import EdgeSpecError
from edgespec.finding import Finding, Status

DEMO_TOKENS = 32
_DEMO_PROMPT = "Once upon a time, in a small village by the sea,"

_PASS_COST = """
import json, statistics, sys, time
from edgespec.llama.model import LlamaModel
from edgespec.llama.session import LlamaSession
model = LlamaModel.load(sys.argv[1], use_extra_bufts=sys.argv[2] == "fast")
session = LlamaSession(model, n_ctx=512, threads=int(sys.argv[3]))
session.warm_up()
session.decode(list(range(100, 130)))
start = session.length
def cost(width):
    seconds = []
    for _ in range(9):
        begun = time.perf_counter()
        session.decode(list(range(200, 200 + width)))
        seconds.append(time.perf_counter() - begun)
        session.truncate(start)
    return statistics.median(seconds)
print(json.dumps({"one": cost(1), "four": cost(4)}))
"""


def run_demo(model: Path, threads: int = 0) -> Finding:
    """A short reply through the engine, as a chat would have it. `threads` 0 takes what a chat takes."""
    from edgespec.engine.client import Engine, describe
    from edgespec.engine.messages import EngineLost, Failed, GenerateOptions, GenerationDone

    try:
        with Engine.open(model, n_ctx=512, threads=threads) as engine:
            events = list(engine.generate(_DEMO_PROMPT, GenerateOptions(max_tokens=DEMO_TOKENS)))
            safe = engine.loaded.safe_mode
    except EdgeSpecError as error:
        return Finding("demo model", Status.BROKEN, error.message, error.hint)
    match events[-1]:
        case GenerationDone(stats=stats):
            speed = stats.decode_tokens_per_second
        case Failed(_, _, message, hint):
            return Finding("demo model", Status.BROKEN, message, hint)
        case EngineLost() as lost:
            return Finding("demo model", Status.BROKEN, describe(lost), "Run `edgespec doctor` again; it may repeat.")
        case _:
            return Finding("demo model", Status.BROKEN, "the engine gave no answer", "Run `edgespec doctor` again.")
    facts = {"path": str(model), "tokens_per_second": speed, "safe_mode": safe}
    value = f"runs: {speed:.0f} tokens a second" if speed else "runs"
    return Finding("demo model", Status.GOOD, value + (" in safe mode" if safe else ""), facts=facts)


def pass_cost(model: Path, safe: bool, threads: int = 0) -> Finding:
    """What a pass of four tokens costs here; below four single ones, guessing ahead can pay."""
    name = "verification"
    command = [sys.executable, "-c", _PASS_COST, str(model), "safe" if safe else "fast", str(threads)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=False)
        found = json.loads(done.stdout.strip().splitlines()[-1])
        one, four = float(found["one"]), float(found["four"])
    except (subprocess.TimeoutExpired, ValueError, IndexError, KeyError):
        return Finding(name, Status.WARNING, "could not be measured", "Try again on a quieter machine.")
    ratio = four / one if one else 0.0
    facts = {"one_token_seconds": one, "four_token_seconds": four, "ratio": ratio}
    value = f"a pass of 4 tokens costs {ratio:.2f} single ones (demo model)"
    if ratio < 3.5:
        return Finding(name, Status.GOOD, f"{value}: guessing ahead can pay", facts=facts)
    advice = "Guessing ahead hardly pays with this model here; larger ones are often better: try `--mode auto`."
    return Finding(name, Status.NOTE, value, advice, facts)
