"""Forked children of a process that has read text with several threads."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ..prepared import Prepared

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

LOAD = """
import signal, threading, torch
from relatum import Extractor
from relatum.kernels.backend import use_backend

TEXTS = ["Marta Figueira works for the Portuguese Railway Company in Lisbon.", "Lisbon is in Portugal."] * 4
torch.set_num_threads(2)
extractor = Extractor.from_pretrained("news", device="cpu")

def read(backend):
    with use_backend(backend):
        return [[*found.entities, *found.relations] for found in extractor.pipe(TEXTS)]

found = {backend: read(backend) for backend in ("cpu", "wavefront")}
"""


@pytest.fixture(scope="module")
def parent() -> Iterator[Prepared]:
    with Prepared(LOAD, {"OMP_NUM_THREADS": "2"}) as python:
        yield python


@pytest.mark.parametrize("backend", ["wavefront", "cpu"])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_forked_child_reads_text_as_its_parent_does(parent: Prepared, backend: str, n_threads: int) -> None:
    said = parent.run(f"""
signal.alarm(60)
print("threads:", torch.get_num_threads())
if {n_threads} > 1:
    torch.set_num_threads({n_threads})
assert read({backend!r}) == found[{backend!r}]
print("the same")
""")
    assert "threads: 1\nthe same\n" in said  # the parent may have said that it compiles


def test_child_of_a_thread_reads_too(parent: Prepared) -> None:
    said = parent.run("""
import os

signal.alarm(60)
torch.set_num_threads(2)
read("cpu")

def fork():
    read("wavefront")  # a pool of threads that is this thread's own
    child = os.fork()
    if not child:
        signal.alarm(30)
        torch.set_num_threads(2)
        os._exit(read("wavefront") != found["wavefront"])
    print("status:", os.waitpid(child, 0)[1])

thread = threading.Thread(target=fork)
thread.start()
thread.join()
assert read("cpu") == found["cpu"]
""")
    assert "status: 0" in said


def test_child_does_not_wait_for_a_lock_of_a_thread_that_it_does_not_have(parent: Prepared) -> None:
    said = parent.run("""
import os

with extractor.runtime._cache._lock:  # as another thread would hold it while it reads
    child = os.fork()
    if not child:
        signal.alarm(30)
        os._exit(read("wavefront") != found["wavefront"])
    print("status:", os.waitpid(child, 0)[1])
""")
    assert "status: 0" in said
