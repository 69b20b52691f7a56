"""What belongs to this process: stores, sandboxes that are open, and threads that wait for them.

At the end of the interpreter, everything that is still open is closed, so that no mount and no process stays.

A forked child uses nothing of its parent: it gives back the descriptors that would keep the parent's mounts and locks
alive. A store that was open at the fork cannot be opened again in the child, because SQLite would take over what it knows
of the parent's locks and with it the right to overwrite what the parent reads. Stores that nothing needs are therefore
closed before a fork.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from . import _checks, _native
from .errors import AgentVFSError

T = TypeVar("T")


class Closing(Protocol):
    """Something that is open on a vault and can be closed."""

    @property
    def vault_key(self) -> tuple[str, str]: ...

    def close(self) -> None: ...


_stores: dict[str, _native.Store] = {}
#: Stores that were open in the parent when this process was forked.
_inherited: frozenset[str] = frozenset()
_open: weakref.WeakSet[Closing] = weakref.WeakSet()
_threads: set[threading.Thread] = set()
_lock = threading.Lock()


def home_of(home: str | os.PathLike[str] | None) -> str:
    """The directory of a store: this one, or the one that the environment says."""
    if home is not None:
        return _checks.host_path("store", home)
    if given := os.environ.get("AVFS_HOME"):
        return os.path.abspath(given)
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):
        data = os.path.expanduser("~/.local/share")
    return os.path.join(data, "agentvfs")


def store(home: str | os.PathLike[str] | None = None) -> _native.Store:
    """The store of a directory, opened once."""
    place = home_of(home)
    with _lock:
        if place in _inherited:
            raise AgentVFSError(
                f"the store {place} was open when this process was forked",
                code="forked",
                hint="close its sandboxes before the fork, or use the start method 'spawn' or 'forkserver'",
            )
        if place not in _stores:
            _stores[place] = _native.Store(place, _actor())
        return _stores[place]


def _actor() -> str | None:
    for name in ("AVFS_ACTOR", "USER", "LOGNAME"):
        if value := os.environ.get(name):
            return value
    return None


def opened(one: Closing) -> None:
    """Has it closed at the end of the interpreter, at the latest."""
    _open.add(one)


def closed(one: Closing) -> None:
    """It was closed before."""
    _open.discard(one)


def is_shared(one: Closing) -> bool:
    """Whether something else of this process is open on the same vault."""
    return any(other is not one and other.vault_key == one.vault_key for other in list(_open))


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Does work in a thread of its own, whatever number of others there is."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(answer)
        finally:
            _threads.discard(thread)

    # The interpreter does not wait for it before `_end` has ended what it waits for.
    thread = threading.Thread(target=run, name="agentvfs", daemon=True)
    _threads.add(thread)
    thread.start()
    return future


def side_by_side(
    works: Sequence[Callable[[], T]], at_once: int
) -> tuple[list[T | None], BaseException | None]:
    """Does several things, so many at once. Answers what came of each, and the first exception, after which nothing more is
    begun. What is under way is waited for, also if the caller is interrupted."""
    answers: list[T | None] = [None] * len(works)
    failed: list[BaseException] = []
    rest = iter(enumerate(works))
    turn = threading.Lock()

    def work_off() -> None:
        while not failed:
            with turn:
                found = next(rest, None)
            if found is None:
                return
            try:
                answers[found[0]] = found[1]()
            except BaseException as error:
                failed.append(error)

    helpers = [in_thread(work_off) for _ in range(min(at_once, len(works)) - 1)]
    work_off()
    for helper in helpers:
        while not helper.done():
            try:
                helper.result()
            except BaseException as error:
                failed.append(error)
    return answers, failed[0] if failed else None


def _end() -> None:
    for one in list(_open):
        # The others are closed all the same.
        with contextlib.suppress(Exception):
            one.close()
    for thread in list(_threads):
        thread.join()
    _native.await_served()


def _before_fork() -> None:
    if not _open and not _threads:
        _stores.clear()


def _forget_parent() -> None:
    global _lock, _inherited
    _lock = threading.Lock()
    _threads.clear()
    _open.clear()
    _stores.clear()
    held = _descriptors()
    _inherited |= {os.path.dirname(target) for target in held.values() if target.endswith("/store.db")}
    for descriptor, target in held.items():
        # Those of its database are SQLite's, which must not meet others under their numbers.
        of_store = target.startswith(tuple(f"{home}/" for home in _inherited))
        if target == "/dev/fuse" or (of_store and "/store.db" not in target):
            os.close(descriptor)


def _descriptors() -> dict[int, str]:
    """The descriptors of this process, with the paths that they lead to."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
            found[int(name)] = _socket_path(int(name)) if target.startswith("socket:") else target
        except OSError:
            # It was the one of the listing.
            pass
    return found


def _socket_path(descriptor: int) -> str:
    import socket

    with socket.socket(fileno=os.dup(descriptor)) as copy:
        name = copy.getsockname()
        return name if isinstance(name, str) else ""


atexit.register(_end)
os.register_at_fork(before=_before_fork, after_in_child=_forget_parent)
