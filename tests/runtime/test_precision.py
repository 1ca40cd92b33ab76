from __future__ import annotations

import pytest
import torch

from relatum.errors import ConfigError
from relatum.runtime.precision import has_half_precision, set_precision

from ..small_models import make_small_model


def test_bf16_casts_the_weights_of_products_over_tables_and_no_others() -> None:
    model = make_small_model("encoder.kind=huggingface")
    set_precision(model, "fp32")
    assert not has_half_precision(model.network)
    set_precision(model, "bf16")
    assert has_half_precision(model.network)
    cast = {name.split(".")[2] for name, weight in model.network.named_parameters() if weight.dtype == torch.bfloat16}
    assert cast == {"pairing", "table_encoder"}


def test_unknown_precision_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"precision 'fp8': there is none of that name; use 'fp32', 'bf16', 'int8'"):
        set_precision(make_small_model(), "fp8")  # type: ignore[arg-type]
