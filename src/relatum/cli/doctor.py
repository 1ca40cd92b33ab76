"""`relatum doctor`: what is here, what is missing, and the cure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from relatum.errors import IN_EXTRA_TORCH

if TYPE_CHECKING:
    from types import ModuleType

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pydantic")
"""The packages whose versions matter when something goes wrong, required or not."""

_TORCH_CURE = "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cpu (without a GPU)"

_EXTRA_CURE = "pip install 'relatum[torch]'"

PRETRAINED = Path(__file__).parent.parent / "pretrained"

EXTRAS = (
    ("torch", "torch", "all but extraction by compiled code: training, GPUs, other models"),
    ("torch", "transformers", "encoders that are no BERT, and tuned ones"),
    ("spacy", "spacy", "spaCy's files"),
    ("elmo", "h5py", "ELMo as the encoder"),
    ("fetch", "onnx", "encoders that are fetched as ONNX files"),
    ("train", "peft", "an encoder tuned by LoRA"),
    ("train", "accelerate", "training by several processes, and trackers"),
    ("train", "matplotlib", "learning curves as a picture"),
    ("tune", "optuna", "relatum tune"),
    ("web", "fastapi", "relatum serve"),
    ("scale", "pyarrow", "relatum extract into a folder: jobs, Parquet"),
    ("ray", "ray", "jobs on a Ray cluster"),
    ("s3", "s3fs", "jobs that read or write s3:// URLs"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked; only the state "broken" keeps relatum from working."""

    name: str
    detail: str
    state: Literal["ok", "missing", "broken"] = "ok"
    cure: str = ""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON alone, as described above.")] = False,
) -> None:
    """Show versions, devices, backends, extras and models, and how to get missing ones.

    The exit status is 1 if something that relatum needs is broken, and else 0.

    --json prints {"ok": true or false, and for each section a list of {"name", "detail", "state", "cure"}}; a state is
    "ok", "missing" or "broken".
    """
    import json

    from relatum.cli.console import printable

    findings = {name: list(look()) for name, look in SECTIONS.items()}
    ok = all(finding.state != "broken" for section in findings.values() for finding in section)
    if as_json:
        sections = {name: [asdict(finding) for finding in section] for name, section in findings.items()}
        print(json.dumps({"ok": ok, **sections}, indent=2))
    else:
        width = max(len(finding.name) for section in findings.values() for finding in section)
        for name, section in findings.items():
            print(f"\n{name}")
            for finding in section:
                mark = "" if finding.state == "ok" else f"{finding.state}: "
                print(printable(f"  {finding.name:<{width}}  {mark}{finding.detail}"))
                if finding.cure:
                    print(printable(f"  {'':<{width}}  → {finding.cure}"))
        print("\nrelatum can run here" if ok else "\nrelatum cannot run here until what is broken is mended")
    if not ok:
        raise typer.Exit(1)


def _versions() -> Iterator[Finding]:
    import platform

    from relatum._version import __version__

    yield Finding("relatum", f"{__version__}, in {Path(__file__).parent.parent}")
    yield Finding("python", f"{platform.python_version()} on {platform.platform()}")
    needed = _requirements()
    for name in dict.fromkeys((*PACKAGES, *needed)):
        version, least = _version(name), needed.get(name)
        if version is None:
            state: Literal["missing", "broken"] = "missing" if least is None else "broken"
            yield Finding(
                name, "not installed", state, _EXTRA_CURE if name in IN_EXTRA_TORCH else f"pip install {name}"
            )
        elif least and _numbers(version) < _numbers(least):
            yield Finding(name, f"{version}, older than {least}", "broken", f"pip install '{name}>={least}'")
        else:
            yield Finding(name, version)


def _requirements() -> dict[str, str]:
    """Return the required packages, each with its lowest version, or an empty string."""
    import re
    from importlib import metadata

    try:
        lines = metadata.requires("relatum") or []
    except metadata.PackageNotFoundError:  # run from a folder of sources
        return {}
    found = {}
    for line in lines:
        least = re.search(r">=\s*([\d.]+)", line)
        if ";" not in line:  # what follows one is an extra, or a machine that this may not be
            found[re.split(r"[^\w.-]", line, maxsplit=1)[0].lower()] = least[1] if least else ""
    return found


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> list[int]:
    """Return the numbers that a release begins with, by which versions are compared: 2.5.0+cpu is [2, 5]."""
    import re

    numbers = [int(number) for number in re.findall(r"\d+", re.split(r"[^\d.]", version, maxsplit=1)[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers


def _devices() -> Iterator[Finding]:
    import os

    from relatum.kernels.compile import BYTE_PRODUCTS, cpu_flags
    from relatum.kernels.waiting import WAITING_CURE, explain_waiting

    all_cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else all_cores
    cores = f"{usable} cores" if usable == all_cores else f"{usable} of {all_cores} cores"
    memory = ""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = f", {_gib(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'))} of memory"
    torch = _torch()
    if isinstance(torch, Finding):
        yield Finding("cpu", f"{cores}{memory}; {_int8()}")
        yield from _load()
        yield torch
        return
    vectors = f"; torch uses {torch.backends.cpu.get_cpu_capability()}"
    known = cpu_flags() & {"avx512f", "avx512_bf16", "amx_tile", "amx_bf16", *BYTE_PRODUCTS}
    flags = f", it has {', '.join(sorted(known))}" if known else ""
    yield Finding("cpu", f"{cores}{memory}{vectors}{flags}; {_bf16(torch)}; {_int8()}")
    well, how = explain_waiting()
    yield Finding("idle threads", how, cure="" if well else WAITING_CURE)
    yield from _load()
    yield from _cuda(torch)


def _load() -> Iterator[Finding]:
    from relatum.kernels.waiting import describe_load

    load = describe_load()
    if load is not None:
        cure = "close what you do not need; relatum works, but slowly, and speeds measured now mean little"
        yield Finding("load", f"the machine is busy with other programs: {load}", cure=cure)


def _bf16(torch: ModuleType) -> str:
    """Say if --precision bf16 is fast or slow on this CPU."""
    for name, query in (("AMX", "_is_amx_tile_supported"), ("AVX-512", "_is_avx512_bf16_supported")):
        supported = getattr(getattr(torch, "cpu", None), query, None)  # not a public part of torch
        if supported is not None and supported():
            return f"bf16 is multiplied with {name}: --precision bf16 is faster than fp32"
    return "bf16 is emulated, and slow: use --precision fp32 on it"


def _int8() -> str:
    """Say if --precision int8 is fast on this CPU."""
    from relatum.kernels.compile import BYTE_PRODUCTS, cpu_flags

    if cpu_flags() & BYTE_PRODUCTS:
        return "it has instructions for 8-bit integers: --precision int8 is faster than fp32"
    return "it has no instructions for 8-bit integers: --precision int8 is hardly faster than fp32"


def _torch() -> ModuleType | Finding:
    """Return the module torch, or the finding that says why it cannot be imported."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return Finding("torch", f"cannot be imported: {error}", "broken", _TORCH_CURE)
        detail = "not installed: compiled code extracts on a CPU; training, GPUs and other models need it"
        return Finding("torch", detail, "missing", _EXTRA_CURE)
    except (ImportError, OSError) as error:  # OSError: a library that it needs
        return Finding("torch", f"cannot be imported: {error}", "broken", _TORCH_CURE)
    return torch


def _cuda(torch: ModuleType) -> Iterator[Finding]:
    import warnings

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if available:
        for number in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(number)
            yield Finding(f"cuda:{number}", f"{device.name}, {_gib(device.total_memory)} of memory")
    elif torch.version.cuda is None:
        cure = "for an NVIDIA GPU install another build, as https://pytorch.org/get-started shows"
        yield Finding("cuda", f"torch {torch.__version__} is built without CUDA", "missing", cure)
    else:
        why = " ".join(str(warning.message) for warning in said) or "no device is seen"
        cure = "if there is one, look at nvidia-smi and at the environment variable CUDA_VISIBLE_DEVICES"
        yield Finding("cuda", why, "missing", cure)


def _backends() -> Iterator[Finding]:
    missing = _torch()
    if isinstance(missing, Finding):
        yield Finding("md-gru", "in a network of torch: needs torch, see above", missing.state)
        return
    import torch

    from relatum.kernels.backend import explain, select
    from relatum.kernels.md_gru import CellSpec

    chosen = select("cuda" if torch.cuda.is_available() else "cpu", CellSpec())
    for backend in explain():
        used = "used here; " if backend.name == chosen else ""
        yield Finding(backend.name, used + backend.reason, "ok" if backend.available else "missing")


def _runtimes() -> Iterator[Finding]:
    from relatum.runtime.base import explain

    missing = _torch()
    for runtime in explain():
        used = "reads on a CPU; " if runtime.is_used else ""
        if runtime.name == "torch" and isinstance(missing, Finding):
            state = "broken" if runtime.is_used else missing.state
            yield Finding("torch", f"{used}needs torch, see above", state, _EXTRA_CURE if runtime.is_used else "")
        else:
            yield Finding(runtime.name, used + runtime.reason)


def _extras() -> Iterator[Finding]:
    for extra, package, purpose in EXTRAS:
        version = _version(package)
        if version is None:
            yield Finding(package, f"{purpose}: not installed", "missing", f"pip install 'relatum[{extra}]'")
        else:
            yield Finding(package, f"{purpose}: {version}")


def _models() -> Iterator[Finding]:
    try:
        from relatum.encoders.hashing import weights_hash
        from relatum.extractor.extractor import Extractor
    except (ImportError, OSError) as error:
        yield Finding("models", f"cannot be loaded: {error}", "broken", "install what is missing above")
        return
    from relatum.errors import RelatumError

    cure = _restore_cure()
    for folder in _folders("models"):
        try:  # loading compares the hash of the encoder with that of the one the model was trained with
            Extractor.from_pretrained(folder, device="cpu")
        except RelatumError as error:
            yield Finding(f"model {folder.name}", f"cannot be loaded: {error}", "broken", cure)
        else:
            yield Finding(f"model {folder.name}", f"{_mib(folder)}; loads, and its encoder is the one it names")
    for folder in _folders("encoders"):
        try:
            yield Finding(f"encoder {folder.name}", f"{_mib(folder)}; sha256 {weights_hash(folder)[:12]}…")
        except RelatumError as error:
            yield Finding(f"encoder {folder.name}", str(error), "broken", cure)
    if not _folders("models"):
        yield Finding("models", "none came with this copy of relatum", "missing", f"{cure}, or relatum train makes one")


def _restore_cure() -> str:
    """Say how to get back the models and encoders that come with relatum."""
    root = PRETRAINED.parent.parent.parent
    if (root / ".git").exists():
        return f"get the files back: git -C {root} checkout -- {PRETRAINED.relative_to(root)}"
    return "in the folder of relatum's sources: pip install --force-reinstall --no-deps ."


def _folders(kind: str) -> list[Path]:
    """Return the folders of that kind, such as models or encoders, that come with relatum."""
    place = PRETRAINED / kind
    return sorted(path for path in place.iterdir() if path.is_dir()) if place.is_dir() else []


def _cache() -> Iterator[Finding]:
    from relatum.folders import cache_folder

    folder = cache_folder()
    yield Finding("cache", f"{folder}, {_mib(folder) if folder.is_dir() else 'which is not there yet'}")


def _mib(folder: Path) -> str:
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 2**20:.1f} MiB"


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


SECTIONS: dict[str, Callable[[], Iterator[Finding]]] = {
    "versions": _versions,
    "devices": _devices,
    "runtimes": _runtimes,
    "md-gru backends": _backends,
    "extras": _extras,
    "models": _models,
    "cache": _cache,
}
