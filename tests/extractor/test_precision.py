from types import SimpleNamespace
from typing import cast

import pytest
import torch

from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.extractor import precision
from relatum.extractor.precision import Precision, set_precision
from relatum.models.model import Model


class Recorded(HuggingFaceEncoder):
    def __init__(self) -> None:
        self.asked: list[torch.dtype] = []

    def narrow(self, dtype: torch.dtype) -> None:
        self.asked.append(dtype)


@pytest.mark.parametrize(
    ("device", "unit", "name", "expected"),
    [
        ("cpu", True, "bf16", [torch.bfloat16]),
        ("cpu", False, "bf16", []),
        ("cuda", False, "bf16", [torch.bfloat16]),
        ("cpu", True, "fp32", []),
    ],
)
def test_encoder_is_narrowed_where_that_does_not_change_answers(
    device: str, unit: bool, name: Precision, expected: list[torch.dtype], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "can_split", lambda: unit)
    encoder = Recorded()
    model = SimpleNamespace(network=SimpleNamespace(layers=[]), encoder=encoder, device=torch.device(device))
    set_precision(cast("Model", model), name)
    assert encoder.asked == expected
