"""Bundles in a Hugging Face repository, or in a local folder with the same two files.

A place that begins with `.`, `/` or `~` is a folder; everything else is the name of a repository. What is pulled comes
from strangers: its size is checked before it is fetched, the strict reader reads it, and only what was understood is
written again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from masp import json_text
from masp.errors import UserError
from masp.importing import one_line
from masp.printable import printable
from masp.similarity.bundle import Bundle, load_bundle, save_bundle

FILE, README = "bundle.safetensors", "README.md"
MAX_BYTES = 1 << 30
"""Largest bundle that is fetched: more than 16,000 actions."""


class SharingError(UserError):
    """A place that cannot be reached now."""

    exit_code = 1


def push(bundle: Bundle, place: str, replace: bool = False, private: bool = False) -> str:
    """Put a bundle and a page about it there; returns where it is now."""
    if is_folder(place):
        folder = Path(place).expanduser()
        if (folder / FILE).exists() and not replace:
            raise UserError(f"{folder / FILE} exists; add --replace to put another bundle there")
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file; a bundle is pushed to a folder or a repository")
        folder.mkdir(parents=True, exist_ok=True)
        save_bundle(folder / FILE, bundle)
        json_text.replace_text(folder / README, readme(bundle, place))
        return str(folder / FILE)
    return _push_to_hub(bundle, place, private)


def pull(place: str, revision: str | None = None) -> Bundle:
    """The bundle there, or a `UserError`."""
    if is_folder(place):
        if revision is not None:
            raise UserError(f"{place} is a folder, which has no revisions; leave out --revision")
        file = Path(place).expanduser() / FILE
        if file.exists() and file.stat().st_size > MAX_BYTES:
            raise UserError(f"{file}: {file.stat().st_size:,} bytes are more than the {MAX_BYTES:,} of a bundle")
        return load_bundle(file)
    try:
        return load_bundle(_fetch(place, revision))
    except SharingError:
        raise
    except UserError as error:
        raise UserError(f"{place}: {str(error).rpartition(f'{FILE}: ')[2]}") from None


def is_folder(place: str) -> bool:
    """Whether a place is a local folder, by its name."""
    return place.startswith((".", "/", "~"))


def readme(bundle: Bundle, place: str) -> str:
    """The page of a repository. Texts of the card are shown as JSON, so that none of them is markup."""
    card = json_text.dumps(bundle.card.to_json(), indent=2)
    count = len(bundle.actions.macros)
    title = printable(bundle.card.env) or printable(bundle.actions.env_id) or "an environment"
    return f"""---
library_name: masp
tags: [reinforcement-learning, macro-actions]
---

# Macro-actions and their similarity

{len(bundle.actions)} actions ({bundle.actions.num_primitives} primitives, {count} macros) and the learned similarity
between them, of this task: `{title.replace("`", "'")}`

```bash
pip install 'masp-rl[hub]'
masp pull {printable(place)} --out bundle.safetensors
masp train ENV --bundle bundle.safetensors
```

What it was trained on, its figures and versions:

```json
{card}
```
"""


def _hub() -> Any:
    try:
        import huggingface_hub
    except ModuleNotFoundError:
        raise UserError(
            "a Hugging Face repository needs: pip install 'masp-rl[hub]'; a folder begins with . or / or ~"
        ) from None
    return huggingface_hub


def _push_to_hub(bundle: Bundle, repository: str, private: bool) -> str:
    import tempfile

    hub = _hub()
    with tempfile.TemporaryDirectory() as folder:
        save_bundle(Path(folder) / FILE, bundle)
        (Path(folder) / README).write_text(readme(bundle, repository))
        try:
            hub.create_repo(repository, private=private, exist_ok=True)
            hub.upload_folder(repo_id=repository, folder_path=folder, commit_message="Push a bundle of masp")
        except Exception as error:
            raise _problem(repository, error) from error
    return f"{hub.constants.ENDPOINT}/{repository}"


def _fetch(repository: str, revision: str | None) -> Path:
    """The file in the cache of the client library."""
    hub = _hub()
    try:
        about = hub.get_hf_file_metadata(hub.hf_hub_url(repository, FILE, revision=revision))
        if about.size is None or about.size > MAX_BYTES:
            size = "no size" if about.size is None else f"{about.size:,} bytes"
            raise UserError(f"{repository}: {FILE} has {size}; a bundle has at most {MAX_BYTES:,} bytes")
        return Path(hub.hf_hub_download(repository, FILE, revision=about.commit_hash or revision))
    except UserError:
        raise
    except Exception as error:
        raise _problem(repository, error) from error


def _problem(repository: str, error: Exception) -> UserError:
    """What the client library says, in one line."""
    kind = type(error).__name__
    if kind == "HFValidationError":
        return UserError(f"{repository!r} is no name of a repository (owner/name); a folder begins with . or / or ~")
    if kind in ("RepositoryNotFoundError", "GatedRepoError"):
        return SharingError(f"{repository}: there is no such repository, or you may not see it ('hf auth login')")
    if kind in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
        return SharingError(f"{repository}: the repository has no {FILE}; 'masp push' puts one there")
    if kind == "RevisionNotFoundError":
        return SharingError(f"{repository}: there is no such revision")
    if kind == "LocalTokenNotFoundError":
        return SharingError(f"{repository}: pushing needs a token: 'hf auth login', or HF_TOKEN in the environment")
    return SharingError(f"{repository}: {one_line(error)}")
