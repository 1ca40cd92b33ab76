from __future__ import annotations

from ...encoders.conftest import make_model

__all__ = ["make_model"]
