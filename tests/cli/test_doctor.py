"""`relatum doctor` from the command line."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
import warnings
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from relatum.cli import doctor
from relatum.errors import RelatumError
from relatum.kernels import waiting

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(doctor.doctor)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def section(name: str) -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in doctor.SECTIONS[name]()}


def no_package(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name in names:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)


def no_module(monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    real = builtins.__import__

    def importing(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == gone or (
            gone == "torch" and name.startswith(("relatum.extractor", "relatum.enc"))
        ):
            raise ImportError(f"no library for {gone}")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", importing)


def test_doctor_says_that_all_is_well_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RELATUM_CACHE", str(tmp_path / "kept"))
    result = run("--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["ok"]) == (0, True), result.stdout
    assert list(report) == ["ok", "versions", "devices", "runtimes", "md-gru backends", "extras", "models", "cache"]
    versions = {finding["name"]: finding["detail"] for finding in report["versions"]}
    for package in ("torch", "numpy", "pydantic", "safetensors", "tokenizers", "transformers"):
        assert versions[package] == metadata.version(package)
    assert sum(finding["detail"].startswith("used here") for finding in report["md-gru backends"]) == 1
    assert report["devices"][0]["name"] == "cpu"
    detail = report["cache"][0]["detail"]  # loading a model may have compiled something
    assert detail.startswith(f"{tmp_path / 'kept'}, ")
    assert detail.endswith((" MiB", "which is not there yet"))


def test_doctor_shows_each_finding_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [doctor.Finding("lamp", "no oil", "missing", "buy oil"), doctor.Finding("door", "open")]
    monkeypatch.setattr(doctor, "SECTIONS", {"house": lambda: iter(found)})
    result = run()
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "",
        "house",
        "  lamp  missing: no oil",
        "        → buy oil",
        "  door  open",
        "",
        "relatum can run here",
    ]


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_doctor_fails_where_something_is_broken(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    found = [doctor.Finding("lamp", "on"), doctor.Finding("roof", "gone", "broken", "build it")]
    monkeypatch.setattr(doctor, "SECTIONS", {"house": lambda: iter(found)})
    result = run(*arguments)
    assert result.exit_code == 1
    assert "build it" in result.stdout


def test_doctor_tells_needed_packages_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=1.26", "odd-one", "spacy>=3.7; extra == 'spacy'", "pydantic >=99.5, <100"]
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    no_package(monkeypatch, "odd-one", "transformers")
    found = section("versions")
    assert found["numpy"].state == "ok"
    assert (found["odd-one"].state, found["odd-one"].cure) == ("broken", "pip install odd-one")
    assert (found["transformers"].state, found["transformers"].cure) == ("missing", "pip install 'relatum[torch]'")
    assert found["pydantic"].detail.endswith("older than 99.5")
    assert (found["pydantic"].state, found["pydantic"].cure) == ("broken", "pip install 'pydantic>=99.5'")
    assert "spacy" not in found


@pytest.mark.parametrize(
    ("version", "least", "is_older"),
    [
        ("2.13.0+cpu", "2.5", False),
        ("2.4.1+cu121", "2.5", True),
        ("2.5", "2.5.0", False),
        ("3.0.0rc1", "3.0", False),
        ("10.0", "9.9", False),
    ],
)
def test_doctor_compares_versions_as_numbers(
    monkeypatch: pytest.MonkeyPatch, version: str, least: str, is_older: bool
) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: [f"torch>={least}"])
    monkeypatch.setattr(metadata, "version", lambda _: version)
    assert section("versions")["torch"].state == ("broken" if is_older else "ok")


def test_doctor_names_the_extra_that_brings_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    no_package(monkeypatch, "h5py")
    found = section("extras")
    assert (found["h5py"].state, found["h5py"].cure) == ("missing", "pip install 'relatum[elmo]'")
    assert (found["spacy"].state, found["spacy"].cure) == ("ok", "")
    # What is used now, not all that pyproject.toml has names for.
    assert set(found) == {
        "torch",
        "transformers",
        "spacy",
        "h5py",
        "onnx",
        "peft",
        "accelerate",
        "matplotlib",
        "optuna",
        "fastapi",
    } | {
        "pyarrow",
        "ray",
        "s3fs",
    }


def test_doctor_reports_a_torch_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    no_module(monkeypatch, "torch")
    devices = section("devices")
    assert "cores" in devices["cpu"].detail
    assert "8-bit integers: --precision int8 is" in devices["cpu"].detail, "which needs no torch"
    assert devices["torch"].state == "broken"
    assert "no library for torch" in devices["torch"].detail
    assert section("md-gru backends")["md-gru"].state == "broken"
    assert section("models")["models"].state == "broken"
    assert section("cache")["cache"].state == "ok"


def fake_torch(monkeypatch: pytest.MonkeyPatch, cuda: str | None, devices: int, warning: str = "") -> None:
    def is_available() -> bool:
        if warning:
            warnings.warn(warning, stacklevel=1)
        return devices > 0

    torch = ModuleType("torch")
    properties = SimpleNamespace(name="Big GPU", total_memory=140 * 2**30)
    vars(torch).update(
        __version__="2.9",
        version=SimpleNamespace(cuda=cuda),
        backends=SimpleNamespace(
            cpu=SimpleNamespace(get_cpu_capability=lambda: "AVX512"), mps=SimpleNamespace(is_available=lambda: True)
        ),
        cuda=SimpleNamespace(
            is_available=is_available, device_count=lambda: devices, get_device_properties=lambda _: properties
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)


def test_doctor_lists_devices_with_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relatum.kernels.compile.cpu_flags", lambda: {"sse", "avx512f", "amx_tile"})
    fake_torch(monkeypatch, "12.6", 2)
    found = section("devices")
    devices = [name for name in found if name not in ("idle threads", "load")]
    assert devices == ["cpu", "cuda:0", "cuda:1"]  # torch has Apple's GPU here, which relatum does not run on
    assert found["cuda:1"].detail == "Big GPU, 140.0 GiB of memory"
    assert "torch uses AVX512, it has amx_tile, avx512f; bf16" in found["cpu"].detail


@pytest.mark.parametrize(
    ("cuda", "warning", "detail", "cure"),
    [
        (None, "", "built without CUDA", "install another build"),
        ("12.6", "", "no device is seen", "CUDA_VISIBLE_DEVICES"),
        ("12.6", "driver too old", "driver too old", "nvidia-smi"),
    ],
)
def test_doctor_says_why_there_is_no_cuda(
    monkeypatch: pytest.MonkeyPatch, cuda: str | None, warning: str, detail: str, cure: str
) -> None:
    fake_torch(monkeypatch, cuda, 0, warning)
    found = section("devices")["cuda"]
    assert found.state == "missing"
    assert detail in found.detail
    assert cure in found.cure


def test_doctor_reports_backends_that_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("relatum.kernels.backend")
    backends = [
        SimpleNamespace(name="triton", available=False, reason="no GPU"),
        SimpleNamespace(name="wavefront", available=True, reason="plain torch"),
    ]
    vars(module).update(explain=lambda: backends, select=lambda *_: "wavefront")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found = section("md-gru backends")
    assert (found["triton"].state, found["triton"].detail) == ("missing", "no GPU")
    assert (found["wavefront"].state, found["wavefront"].detail) == ("ok", "used here; plain torch")


class Loader:
    """Refuses the model `bad`."""

    @staticmethod
    def from_pretrained(path: Path, device: str) -> None:
        assert device == "cpu"
        if path.name == "bad":
            raise RelatumError("the sha256 is another one")


def test_doctor_looks_at_everything_that_came_with_relatum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = ModuleType("relatum.extractor.extractor")
    vars(module).update(Extractor=Loader)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(doctor, "PRETRAINED", tmp_path)
    assert section("models")["models"].state == "missing"
    for name in ("models/good", "models/bad", "encoders/small", "encoders/empty"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "models" / "good" / "model.safetensors").write_bytes(bytes(3 * 2**20))
    (tmp_path / "encoders" / "small" / "model.safetensors").write_bytes(b"")
    found = section("models")
    assert list(found) == ["model bad", "model good", "encoder empty", "encoder small"]
    assert found["model good"].detail.startswith("3.0 MiB; loads")
    assert found["model bad"].state == "broken"
    assert "the sha256 is another one" in found["model bad"].detail
    assert found["encoder small"].detail == "0.0 MiB; sha256 e3b0c44298fc…"
    assert found["encoder empty"].state == "broken"


def test_doctor_is_not_misled_by_folders_with_the_names_of_what_it_looks_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = [path.name for kind in ("models", "encoders") for path in (doctor.PRETRAINED / kind).iterdir()]
    assert len(names) > 1
    for name in names:
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert {finding.name: finding.detail for finding in section("models").values() if finding.state != "ok"} == {}


def test_doctor_does_not_import_transformers_for_its_version() -> None:
    script = (
        "import sys\nfrom relatum.cli.doctor import SECTIONS\n"
        "for look in SECTIONS.values(): list(look())\n"
        "assert 'torch' in sys.modules\nassert 'transformers' not in sys.modules and 'spacy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("amx", "avx", "said"),
    [
        (True, True, "bf16 is multiplied with AMX"),
        (False, True, "bf16 is multiplied with AVX-512"),
        (False, False, "bf16 is emulated, and slow"),
        (None, None, "bf16 is emulated, and slow"),
    ],
)
def test_doctor_says_what_bf16_is_worth_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, amx: bool | None, avx: bool | None, said: str
) -> None:
    fake_torch(monkeypatch, None, 0)
    if amx is not None:  # a torch that cannot say has none of these
        queries = SimpleNamespace(_is_amx_tile_supported=lambda: amx, _is_avx512_bf16_supported=lambda: avx)
        monkeypatch.setattr(sys.modules["torch"], "cpu", queries, raising=False)
    assert said in section("devices")["cpu"].detail


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"avx2", "avx512f"}, "it has no instructions for 8-bit integers: --precision int8 is hardly faster than fp32"),
        ({"avx2", "avx_vnni"}, "it has avx_vnni; "),
        ({"avx2", "avx_vnni"}, "it has instructions for 8-bit integers: --precision int8 is faster than fp32"),
        ({"avx512_vnni"}, "--precision int8 is faster than fp32"),
        ({"asimddp"}, "--precision int8 is faster than fp32"),
    ],
)
def test_doctor_says_what_int8_is_worth_on_the_cpu(monkeypatch: pytest.MonkeyPatch, flags: set[str], said: str) -> None:
    monkeypatch.setattr("relatum.kernels.compile.cpu_flags", lambda: flags)
    assert said in section("devices")["cpu"].detail


def test_doctor_says_how_idle_threads_wait_and_that_the_machine_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_torch_came_first", False)
    monkeypatch.setenv("GOMP_SPINCOUNT", "123")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (1.9, 9.0, 9.0))
    found = section("devices")
    assert "GOMP_SPINCOUNT=123" in found["idle threads"].detail
    assert "load" not in found
    monkeypatch.setattr(waiting, "_torch_came_first", True)
    monkeypatch.setattr("os.getloadavg", lambda: (4.14, 0.0, 0.0))
    found = section("devices")
    assert "torch was imported before relatum" in found["idle threads"].detail
    assert found["idle threads"].cure == waiting.WAITING_CURE
    assert found["load"].detail.endswith("load 4.1 on 2 cores")
    assert {finding.state for finding in (found["idle threads"], found["load"])} == {"ok"}


@pytest.mark.parametrize("is_checkout", [True, False])
def test_doctor_names_a_cure_for_lost_models_that_needs_no_release(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_checkout: bool
) -> None:
    monkeypatch.setattr(doctor, "PRETRAINED", tmp_path / "src/relatum/pretrained")
    if is_checkout:
        (tmp_path / ".git").mkdir()
    cure = section("models")["models"].cure
    assert ("git -C " in cure) == is_checkout
    assert ("pip install --force-reinstall --no-deps ." in cure) != is_checkout
