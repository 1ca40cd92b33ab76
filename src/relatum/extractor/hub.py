"""Models on the Hugging Face hub.

Only files that a model's manifest lists are downloaded, and only safetensors, JSON, Markdown and plain text. They lie
in the cache of huggingface_hub, so that a second load needs no network. The manifest is checked when the model is
loaded, as for any folder, and nothing in the files is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, TypedDict

from relatum.encoders.resolve import SHIPPED, named_folder
from relatum.errors import RelatumError
from relatum.extractor.hub_card import CardMetadata, make_hub_card
from relatum.files import MAX_RECORD
from relatum.models.manifest import NAME as MANIFEST
from relatum.models.manifest import Manifest

if TYPE_CHECKING:
    from relatum.models.model import Model

Token = str | bool | None
"""A token of the hub; None and True are the one that `hf auth login` or HF_TOKEN has set, False is none."""

SUFFIXES = (".json", ".md", ".safetensors", ".txt")
"""The suffixes of files that are downloaded: never pickles, never code."""
_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model that was downloaded: its folder in the cache, and the commit that its files are from."""

    folder: Path
    revision: str


@dataclass(frozen=True, slots=True)
class PushedModel:
    """A model that was pushed: its name, the commit that was made, its page, and the encoders that its users need."""

    name: str
    revision: str
    url: str
    needs: tuple[str, ...]


def is_hub_name(name: object) -> bool:
    """True if a name can be the name of a model on the hub, `owner/model`."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def download_model(
    name: str, revision: str | None = None, token: Token = None, local_files_only: bool = False
) -> HubModel:
    """Download the files that a model's manifest lists, all from one commit; files in the cache are not fetched again.

    `revision` is a branch, a tag or the hash of a commit; by default the branch `main`.
    """
    from huggingface_hub import HfApi

    fetch = partial(HfApi(token=token).hf_hub_download, name, local_files_only=local_files_only)
    reason = None
    if not local_files_only and not _is_stored(fetch, revision):
        with _explaining(name, revision, MANIFEST):
            reason = _why_unreachable(name, revision, token)
    with _explaining(name, revision, MANIFEST, reason):
        folder = Path(fetch(MANIFEST, revision=revision, local_files_only=local_files_only or bool(reason))).parent
    commit = folder.name
    files = Manifest.read(folder).files
    _check_files(name, files, "use a model whose encoder is not stored inside, or is in safetensors")
    for file in files:
        with _explaining(name, commit, file, reason):
            fetch(file, revision=commit, local_files_only=local_files_only or bool(reason))
    return HubModel(folder, commit)


def _is_stored(fetch: Callable[..., str], revision: str | None) -> bool:
    """True if the revision is a commit whose manifest is in the cache: it never changes, so the hub is not asked."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    if revision is None or not _COMMIT.fullmatch(revision):
        return False
    try:
        fetch(MANIFEST, revision=revision, local_files_only=True)
    except LocalEntryNotFoundError:
        return False
    return True


def _why_unreachable(name: str, revision: str | None, token: Token) -> str | None:
    """Ask the hub for the manifest; return the reason if the hub cannot be reached, so that the cache may answer.

    The download itself would ask again and again for half a minute.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError

    url = hf_hub_url(name, MANIFEST, revision=revision)
    try:
        found = get_hf_file_metadata(url, token=token, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception as error:
        if isinstance(error, HfHubHTTPError) and error.response.status_code < 500:
            raise
        return _reason(error)
    if (found.size or 0) > MAX_RECORD:
        raise RelatumError(f"{name}: {MANIFEST} has {found.size:,} bytes, expected at most {MAX_RECORD:,}")
    return None


class PushOptions(TypedDict, total=False):
    """The options of a push."""

    private: bool | None
    token: Token
    branch: str | None
    commit_message: str | None
    encoder: Literal["as saved", "inside"]
    license: str | None
    language: str | Sequence[str] | None
    datasets: Sequence[str]
    tags: Sequence[str]


def push_model(model: Model, card: str, name: str, options: PushOptions) -> PushedModel:
    """Push a model to the hub in one commit; the repository is made if there is none.

    Files of an earlier model that the new manifest does not list stay in the repository, and are not downloaded.
    """
    from relatum.models.checkpoint import save_model  # with torch, which a download can do without

    if not is_hub_name(name):
        raise RelatumError(f"{name!r} is not the name of a model on the hub; expected owner/model")
    if options.get("encoder") == "inside":
        settings = model.config.encoder.model_copy(update={"store": "inside"})
        model = replace(model, config=model.config.model_copy(update={"encoder": settings}))
    needs = _needed_encoders(model)
    metadata = CardMetadata(
        options.get("license"), options.get("language"), options.get("datasets", ()), options.get("tags", ())
    )
    with TemporaryDirectory() as folder:
        saved = Path(folder, "model")
        save_model(model, saved, make_hub_card(card, name, metadata, needs))
        files = [*Manifest.read(saved).files, MANIFEST]
        _check_files(name, files, "push the model without its encoder: encoder='as saved'")
        revision, url = _commit(saved, files, name, options)
    return PushedModel(name, revision, url, needs)


def _commit(folder: Path, files: Sequence[str], name: str, options: PushOptions) -> tuple[str, str]:
    """Upload files in one commit; return its hash and the address of the model."""
    from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi(token=options.get("token"))
    branch = options.get("branch")
    message = options.get("commit_message") or "Add a model of relatum"
    with _explaining(name, branch):
        url = api.create_repo(name, private=options.get("private"), exist_ok=True)
        if branch is not None:
            api.create_branch(name, branch=branch, exist_ok=True)
        added = [CommitOperationAdd(file, folder / file) for file in files]
        commit = api.create_commit(name, added, commit_message=message, revision=branch)
    return str(commit.oid), str(url)


def _needed_encoders(model: Model) -> tuple[str, ...]:
    """Return the names of the encoders that a user needs beside relatum; refuse the folder of an encoder."""
    config = model.config.encoder
    if model.encoder is None or config.store == "inside":
        return ()
    others = config.beside if config.tuning == "full" else config.names
    for name in others:
        if named_folder(name) is not None:
            raise RelatumError(
                f"the model reads with the encoder in the folder {name}, which others do not have; push the encoder "
                "with the model: encoder='inside', or relatum push --encoder-inside"
            )
    return tuple(name for name in others if not (SHIPPED / name.lower()).is_dir())


def _check_files(name: str, files: Iterable[str], cure: str) -> None:
    """Refuse files that are never downloaded."""
    foreign = [file for file in files if not file.endswith(SUFFIXES)]
    if foreign:
        known = ", ".join(SUFFIXES)
        raise RelatumError(f"{name}: the model has the file {foreign[0]}; relatum downloads only {known}; {cure}")


@contextmanager
def _explaining(name: str, revision: str | None, file: str = "", reason: str | None = None) -> Iterator[None]:
    """Turn errors of the hub's library into errors that say what was looked for, and what to do."""
    try:
        yield
    except RelatumError:
        raise
    except Exception as error:  # the errors of several libraries, with nothing in common
        raise RelatumError(f"{name}: {_explain(error, name, revision, file, reason)}") from error


def _explain(error: Exception, name: str, revision: str | None, file: str, reason: str | None) -> str:
    from huggingface_hub import constants, errors

    host = constants.ENDPOINT
    status = getattr(getattr(error, "response", None), "status_code", None)
    at = f" at {revision!r}" if revision else ""
    if isinstance(error, errors.GatedRepoError):
        return f"the model is gated; ask for access at {host}/{name}, and log in: hf auth login, or give a token"
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"no such model on the hub ({host}), or it is private; check the name, and log in for a private model: "
            "hf auth login, or give a token"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"the model on the hub ({host}) has no branch, tag or commit {revision!r}"
    if isinstance(error, errors.LocalEntryNotFoundError):
        why = reason or _reason(error.__cause__ or error)
        return f"{file}{at} is not in the cache ({constants.HF_HUB_CACHE}), and the hub ({host}) was not reached: {why}"
    if isinstance(error, errors.EntryNotFoundError):
        what = "is not a model of relatum" if file == MANIFEST else "is incomplete; push it again"
        return f"there is no {file}{at} in the repository on the hub ({host}): it {what}"
    if status in (401, 403):
        return f"the hub ({host}) refuses this: {_reason(error)}; log in with a token that may do it: hf auth login"
    cause = f" ({_reason(error.__cause__)})" if isinstance(error, RuntimeError) and error.__cause__ else ""
    return f"the hub ({host}) cannot be used: {_reason(error)}{cause}"


def _reason(error: BaseException) -> str:
    """Return the reason of an error on one line: the hub's own words if it has any, and the status of its answer."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    lines = (getattr(error, "server_message", None) or str(error)).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    return reason if status is None or str(status) in reason else f"{reason} ({status})"
