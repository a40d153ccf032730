"""Objects of users by name: `module:name`, imported from the Python path or the current directory.

A run keeps the names of the user's own parts, such as an environment or a network, and imports them when it is opened.
The script that runs is never imported a second time: its name stands for the module that is there, `__main__`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from masp.errors import UserError

_MAIN = ("__main__", "__mp_main__")
"""Names of the module of the running script; the second one in processes that `multiprocessing` has spawned."""

_import_under_way: ContextVar[bool] = ContextVar("import_under_way", default=False)


def import_user_module(module: str, user: str) -> Any:
    """Import a module, also from the current directory, which a console script does not search.

    Args:
      user: the name that contains the module, for the message of the `UserError` if the import fails.
    """
    if module == _main_module():
        return sys.modules["__main__"]
    directory = os.getcwd()
    if directory not in sys.path and "" not in sys.path:
        sys.path.append(directory)  # last, so that files there shadow no installed package
    token = _import_under_way.set(True)
    try:
        return importlib.import_module(module)
    except UserError as error:
        raise UserError(f"{user}: the module before the colon cannot be imported: {error}") from None
    except ModuleNotFoundError as error:
        hint = "; it must be installed, or in the current directory" if error.name == module else ""
        raise UserError(f"{user}: the module before the colon cannot be imported: {error}{hint}") from None
    except Exception as error:
        raise UserError(f"{user}: the module before the colon cannot be imported: {one_line(error)}") from error
    finally:
        _import_under_way.reset(token)


def require_no_import() -> None:
    """Raise `UserError` if a module that a run needs is just being imported, and trains meanwhile.

    A process that `multiprocessing` spawns, as those of environments, imports the script that spawned it.
    """
    processes = sys.modules.get("multiprocessing.process")
    spawning = processes is not None and getattr(processes.current_process(), "_inheriting", False)
    if _import_under_way.get() or spawning:
        raise UserError(
            'it trains when it is imported; put that part of it under `if __name__ == "__main__":`, so that what the '
            "run needs from it can be imported alone"
        )


def import_object(name: str) -> Any:
    """The object with the name `module:name` or `module:Outer.name`."""
    module, colon, path = name.partition(":")
    if not colon or not module or not path:
        raise UserError(f"{name!r}: expected module:name")
    value = import_user_module(module, name)
    for part in path.split("."):
        if not hasattr(value, part):
            raise UserError(f"{name}: the module {module} has no {path}")
        value = getattr(value, part)
    return value


def importable_name(value: Any) -> str | None:
    """The name `module:name` under which another process can import a function or class; None: there is none.

    What a script defines is imported from the script's file, as the processes of `multiprocessing` do.
    """
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module not in sys.modules or not path:
        return None
    attribute: Any = sys.modules[module]
    for part in path.split("."):
        attribute = getattr(attribute, part, None)
    if attribute is not value:
        return None
    module = _main_module() if module in _MAIN else module
    return f"{module}:{path}" if module else None


def _main_module() -> str | None:
    """The name under which the running script can be imported."""
    main = sys.modules["__main__"]
    if (main_spec := getattr(main, "__spec__", None)) is not None:
        return str(main_spec.name)
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).stem.isidentifier():
        return None
    try:
        spec = importlib.util.find_spec(Path(file).stem)
    except ValueError:  # a module of this name was made by hand
        return None
    same = spec is not None and spec.origin is not None and Path(spec.origin).resolve() == Path(file).resolve()
    return Path(file).stem if same else None


def one_line(error: BaseException) -> str:
    """An exception of third-party code on one line, with the place where it was raised."""
    message = " ".join(str(error).split())
    summary = f"{type(error).__name__}{message and ': ' + message}"
    if isinstance(error, SyntaxError):  # its message has the place
        return summary
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{summary} ({Path(frame.filename).name}, line {frame.lineno})"
