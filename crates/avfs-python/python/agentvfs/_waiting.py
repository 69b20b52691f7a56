"""How coroutines wait for calls that block, on asyncio (and what follows it, such as uvloop) and on Trio."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from . import _checks, _lifecycle
from .approvals import Answer, ApprovalRequest, Approve

T = TypeVar("T")


def _trio() -> Any:
    """Trio, if it runs the caller. Nobody runs on it who has not imported it."""
    trio = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_run() else None


async def in_thread(work: Callable[[], T], cancel: Callable[[], object] | None = None) -> T:
    """Does work in a thread of its own. When the coroutine is cancelled, so is the work, and its end is waited for: what
    it has changed is there when the cancellation is told."""
    trio = _trio()
    if trio is not None:
        return await _in_thread_of_trio(trio, work, cancel)
    waiting = asyncio.wrap_future(_lifecycle.in_thread(work))
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if cancel is not None:
            cancel()
        while not waiting.done():
            try:
                await asyncio.wait({waiting})
            except asyncio.CancelledError:
                # Cancelled again: it is on its way already.
                continue
        if not waiting.cancelled():
            # Nobody asks for the answer any more.
            waiting.exception()
        raise


async def _in_thread_of_trio(trio: Any, work: Callable[[], T], cancel: Callable[[], object] | None) -> T:
    token, ended = trio.lowlevel.current_trio_token(), trio.Event()
    future = _lifecycle.in_thread(work)
    future.add_done_callback(lambda _: token.run_sync_soon(ended.set))
    try:
        await ended.wait()
    except trio.Cancelled:
        if cancel is not None:
            cancel()
        with trio.CancelScope(shield=True):
            await ended.wait()
        raise
    return future.result()


def on_loop(call: Callable[[T], object] | None) -> Callable[[T], None] | None:
    """A listener that is called by the event loop, in the order of the calls."""
    _checks.function("a listener", call)
    if call is None:
        return None
    listener, trio = call, _trio()
    if trio is not None:
        soon = trio.lowlevel.current_trio_token().run_sync_soon
    else:
        soon = asyncio.get_running_loop().call_soon_threadsafe

    def tell(value: T) -> None:
        soon(listener, value)

    return tell


#: Decides about a request, perhaps after asking a person.
AsyncApprove = Callable[[ApprovalRequest], Answer | Awaitable[Answer]]


def approve_on_loop(approve: AsyncApprove | None) -> Approve | None:
    """An answer to requests that may wait on the event loop."""
    _checks.function("approve", approve)
    if approve is None:
        return None
    ask, trio = approve, _trio()

    async def asked(request: ApprovalRequest) -> Answer:
        answer = ask(request)
        if inspect.isawaitable(answer):
            return await answer
        return answer

    if trio is not None:
        token = trio.lowlevel.current_trio_token()
        return lambda request: trio.from_thread.run(asked, request, trio_token=token)
    loop = asyncio.get_running_loop()
    return lambda request: asyncio.run_coroutine_threadsafe(asked(request), loop).result()
