"""Structures that describe layers to compiled code; whoever makes them holds the arrays that they point to."""

from __future__ import annotations

import ctypes


class Dense(ctypes.Structure):
    """The structure `Dense` of `native/dense.h`."""

    _fields_ = (
        ("weights", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("depth", ctypes.c_int32),
        ("width", ctypes.c_int32),
    )


class Norm(ctypes.Structure):
    """The structure `Norm` of `native/rows.h`."""

    _fields_ = (("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p), ("epsilon", ctypes.c_float))
