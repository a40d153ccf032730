"""Pages of the site that are made from the code: commands, settings, Python names, combos of Street Fighter II."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from typing import Any

from mkdocs.structure.files import File, Files

import masp
from masp.cli.flags import SECTIONS, field_docs
from masp.cli.main import COMMANDS, Parser
from masp.config import TrainConfig, to_flat
from masp.environments import street_fighter_moves as street_fighter
from masp.presets import PRESETS
from masp.report.metric_texts import EFFECTS, LISTS, METRICS

SUMMARIES = {
    "": "The run",
    "agent": "The agent",
    "similarity": "The similarity",
    "demonstration": "Learning from demonstrations",
}

OPTIONS = {
    "planted-grid": ("planted", "PlantedGrid"),
    "planted-bandit": ("planted", "PlantedBandit"),
    "MinAtar": ("minatar", "MinAtar"),
    "Atari": ("atari", "AtariSettings"),
    "street-fighter": ("street_fighter", "make_street_fighter"),
    "Other games of stable-retro": ("retro", "make_retro"),
}
"""Title to the module and the object whose docstring explains them."""


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, and the entries of the log, which the navigation does not list."""
    pages = {
        "commands": commands(),
        "settings": settings(),
        "options": options(),
        "metrics": metrics(),
        "python": python_names(),
        "street-fighter": combos(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def commands() -> str:
    """Every command with its own help text."""
    os.environ["COLUMNS"] = "100"
    parts = ["# Commands\n\nEvery command explains itself with `--help`; this page is those texts.\n"]
    for name, (module_name, summary) in COMMANDS.items():
        module = importlib.import_module(module_name)
        parser = Parser(prog=f"masp {name}", description=module.__doc__ or summary)
        module.add_arguments(parser)
        parts.append(f"## masp {name}\n\n{summary[0].upper()}{summary[1:]}.\n\n```text\n{parser.format_help()}```\n")
    return "\n".join(parts)


def settings() -> str:
    """Every field of the configuration with its default and the presets that change it."""
    parts = [
        "# Settings\n\nA setting is a flag of `masp train` (`learning_rate` is `--learning-rate`), a keyword of "
        "`masp.train` and a name in `config.json`. The default holds where neither the preset nor you say "
        "otherwise.\n"
    ]
    defaults = to_flat(TrainConfig(env="ENV"))
    for section, kind in SECTIONS.items():
        parts.append(f"## {SUMMARIES[section]}\n\n| setting | default | in presets | meaning |\n|---|---|---|---|")
        for name, text in field_docs(kind).items():
            if name in defaults and name != "env":
                changed = ", ".join(f"{p}: {_value(v[name])}" for p, v in PRESETS.items() if name in v)
                meaning = " ".join(text.split()).replace("|", "\\|")
                parts.append(f"| `{name}` | {_value(defaults[name])} | {changed} | {meaning} |")
        parts.append("")
    return "\n".join(parts)


def options() -> str:
    """The options of the environments that come with the package."""
    parts = [
        "# Options of environments\n\nGiven as `--env-options NAME=VALUE ...` or `env_options={...}`; an empty default "
        "is explained in the text.\n"
    ]
    for title, (module_name, name) in OPTIONS.items():
        made = getattr(importlib.import_module(f"masp.environments.{module_name}"), name)
        texts = _arguments(inspect.getdoc(made) or "") or _arguments(inspect.getdoc(made.__init__) or "")
        texts = texts or field_docs(made)
        defaults = {key: p.default for key, p in inspect.signature(made).parameters.items() if key in texts}
        if list(defaults) != list(texts):
            raise ValueError(f"{module_name}.{name} explains {list(texts)}, but takes {list(defaults)}")
        parts.append(f"## {title}\n\n| option | default | meaning |\n|---|---|---|")
        for key, text in texts.items():
            default = str(defaults[key]).lower() if isinstance(defaults[key], bool) else defaults[key]
            parts.append(f"| `{key}` | {_value(default)} | {' '.join(text.split())} |")
        parts.append("")
    return "\n".join(parts)


def metrics() -> str:
    """Every column of the metrics."""
    parts = [
        "# Metrics\n\n`metrics.csv` and `metrics.jsonl` of a run directory hold one row per `--log-every-frames`. A "
        "blank (`null`) means: not measured in this row, or without meaning here. Sums and means are over what "
        "happened since the row before, unless it says otherwise.\n"
    ]
    sections = {
        "The run": METRICS,
        "What the penalty does": EFFECTS,
        "One number per action": LISTS,
    }
    intros = {
        "What the penalty does": "`masp similarity show RUN_DIR --effects effects.png` draws these. Values are those "
        "of 64 states from the replay, without noise.\n\n",
        "One number per action": "In `metrics.jsonl` only.\n\n",
    }
    for title, texts in sections.items():
        rows = "\n".join(f"| `{name}` | {text} |" for name, text in texts.items())
        parts.append(f"## {title}\n\n{intros.get(title, '')}| column | meaning |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


def _arguments(text: str) -> dict[str, str]:
    """Name to text of the `Args:` of a docstring."""
    block = text.partition("Args:\n")[2].partition("\n\n")[0]
    return dict(re.findall(r"^  (\w+): (.*(?:\n    .*)*)", block, re.MULTILINE))


def python_names() -> str:
    """Every public name with its signature and docstring."""
    names = "\n\n".join(f"::: masp.{name}" for name in masp.__all__)
    return f"# Python names\n\nEverything that `import masp` offers.\n\n{names}\n"


def combos() -> str:
    """The moves and both sets of combos of Street Fighter II."""
    parts = [
        "# Moves and combos of Street Fighter II\n",
        "The primitives and macros of [street-fighter](../street-fighter.md). Digits are positions of the stick as on",
        "a number pad, with the opponent to the right; LP, MP and HP are a light, medium and heavy punch, LK, MK and",
        "HK kicks.\n\n## The 15 moves\n\n| action | move | buttons of the Genesis |\n|---|---|---|",
    ]
    for action, (move, name) in enumerate(zip(street_fighter.MOVES, street_fighter.NAMES, strict=True)):
        buttons = [street_fighter.RIGHT.get(x, x) for x in street_fighter.STICK.get(move, ())]
        pressed = street_fighter.BUTTONS.get(move) or " ".join(buttons)
        parts.append(f"| {action} | `{move}` {name if name != move else ''} | {pressed} |")
    for title, table in (("I, simple", street_fighter.SIMPLE), ("II, special moves", street_fighter.COMPLEX)):
        parts.append(f"\n## Set {title}\n\n| combo | moves |\n|---|---|")
        parts += [f"| {name} | `{moves}` |" for name, moves in table.items()]
    return "\n".join(parts) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        value = " ".join(map(str, value))
    return f"`{value}`" if value not in ("", None) else ""
