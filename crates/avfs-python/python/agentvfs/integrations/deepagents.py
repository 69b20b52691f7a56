"""Deep agents (LangChain) that work in a sandbox: `create_deep_agent(model, backend=AvfsSandbox("web"))`."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    SandboxBackendProtocol,
    WriteResult,
)
from deepagents.backends.utils import compile_grep_include_glob, slice_read_response

from ..errors import AgentVFSError
from ..files import FileInfo as Entry
from ..workspace import Answer, Place, Workspace

#: What the framework's own sandboxes show of a file that is no text.
_PREVIEW_MAX = 500 * 1024

_Failure = (AgentVFSError, OSError)


class AvfsSandbox(SandboxBackendProtocol):
    """A backend whose commands share one shell in a sandbox, unless `session=False`.

    `place` is a `Sandbox`, the name of a vault, or a path of this machine; what else can be given to the sandbox can be
    given here (`network=`, `env=`, `approve=` …). File tools read and write the sandbox's files directly, under its rules.
    """

    def __init__(self, place: Place, *, session: bool = True, **options: Any) -> None:
        #: The sandbox with its files: `workspace.sandbox.diff()` shows what the agent did.
        self.workspace = Workspace(place, session=session, **options)

    def close(self) -> None:
        """Ends it."""
        self.workspace.close()

    @property
    def id(self) -> str:
        """The name of the sandbox."""
        return self.workspace.sandbox.name

    # Commands

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a command line."""
        return _response(self.workspace.tell(command, timeout or None))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """The same for coroutines. One that is cancelled ends the command."""
        return _response(await self.workspace.atell(command, timeout or None))

    # Files

    def ls(self, path: str) -> LsResult:
        """What is in a directory."""
        try:
            found = self.workspace.list(path)
        except _Failure as error:
            return LsResult(error=f"Path '{path}': {_code(error)}")
        return LsResult(entries=[_info(one) for one in found])

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Lines of a text file, or a small file of another kind in base64."""
        try:
            content = self.workspace.read(file_path)
        except _Failure as error:
            return ReadResult(error=f"File '{file_path}': {_code(error)}")
        text = _text(content)
        if text is not None:
            return _page(slice_read_response(FileData(content=text, encoding="utf-8"), offset, limit))
        if len(content) > _PREVIEW_MAX:
            return ReadResult(
                error=f"File '{file_path}': Binary file exceeds maximum preview size of {_PREVIEW_MAX} bytes"
            )
        return ReadResult(file_data=FileData(content=base64.b64encode(content).decode(), encoding="base64"))

    def write(self, file_path: str, content: str) -> WriteResult:
        """Writes a file. One that is there is replaced."""
        error = self._upload(file_path, content.encode())
        if error is not None:
            return WriteResult(error=f"Failed to write file '{file_path}': {error}")
        return WriteResult(path=file_path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replaces a text in a file. Lines that end as on Windows keep their ends."""
        if not old_string:
            return EditResult(error="Error: there is no text to replace")
        count = 0
        try:
            for old, new in _line_ends(old_string, new_string):
                count = self.workspace.edit(file_path, old, new, replace_all=replace_all)
                if count:
                    break
        except FileNotFoundError:
            return EditResult(error=f"Error: File '{file_path}' not found")
        except _Failure as error:
            return EditResult(error=f"Error: File '{file_path}': {_code(error)}")
        if not count:
            return EditResult(error=f"Error: String not found in file: '{old_string}'")
        if count > 1 and not replace_all:
            return EditResult(
                error=f"Error: String '{old_string}' appears multiple times ({count}). "
                "Use replace_all=True to replace all occurrences."
            )
        return EditResult(path=file_path, occurrences=count)

    def delete(self, file_path: str) -> DeleteResult:
        """Removes a file, or a directory with everything in it."""
        try:
            self.workspace.remove(file_path)
        except _Failure as error:
            return DeleteResult(error=f"Path '{file_path}': {_code(error)}")
        except ValueError as error:
            return DeleteResult(error=str(error))
        return DeleteResult(path=file_path)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """The files below a directory whose paths match."""
        try:
            matches = [_info(one) for one in self._matching(path or ".", pattern)]
        except ValueError as error:
            return GlobResult(error=str(error))
        except _Failure as error:
            return GlobResult(error=f"Path '{path}': {_code(error)}")
        return GlobResult(matches=matches)

    def _matching(self, path: str, pattern: str) -> Iterable[Entry]:
        matches = compile_grep_include_glob(pattern)
        base = self.workspace.absolute(path)
        for one in self.workspace.find(path):
            if one.is_file and matches(posixpath.relpath(one.path, base)):
                yield one

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """The lines of files that contain a text."""
        where = path or "."
        # One more than is wanted tells whether there are more.
        limit = None if max_count is None or glob is not None else max_count + 1
        try:
            allowed = {one.path for one in self._matching(where, glob)} if glob is not None else None
            found = self.workspace.grep(pattern, where, limit=limit)
        except ValueError as error:
            return GrepResult(error=str(error))
        except _Failure as error:
            return GrepResult(error=f"Path '{where}': {_code(error)}")
        matches = [
            GrepMatch(path=one.path, line=one.line, text=one.text)
            for one in found
            if allowed is None or one.path in allowed
        ]
        is_cut = max_count is not None and len(matches) > max_count
        return GrepResult(matches=matches[:max_count] if is_cut else matches, truncated=is_cut)

    # Transfers

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files, each for itself."""
        return [FileUploadResponse(path=path, error=self._upload(path, data)) for path, data in files]

    def _upload(self, path: str, data: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self.workspace.write(path, data)
        except _Failure as error:
            return _code(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads files, each for itself."""
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            return FileDownloadResponse(path=path, content=self.workspace.read(path))
        except _Failure as error:
            return FileDownloadResponse(path=path, error=_code(error))


def _response(answer: Answer) -> ExecuteResponse:
    return ExecuteResponse(output=answer.text, exit_code=answer.exit_code, truncated=answer.is_truncated)


def _code(error: BaseException) -> str:
    """The framework's word for an error, if it has one."""
    if isinstance(error, FileNotFoundError):
        return "file_not_found"
    if isinstance(error, PermissionError):
        return "permission_denied"
    if isinstance(error, IsADirectoryError):
        return "is_directory"
    if isinstance(error, (NotADirectoryError, ValueError)):
        return "invalid_path"
    return str(error)


def _info(entry: Entry) -> FileInfo:
    modified = datetime.fromtimestamp(entry.modified, tz=timezone.utc).isoformat()
    return FileInfo(path=entry.path, is_dir=entry.is_dir, size=entry.size, modified_at=modified)


def _page(result: ReadResult) -> ReadResult:
    """A page without the end of its last line, as the framework's sandboxes have it. The last page tells how the file
    ends."""
    if result.file_data is not None and result.next_offset is not None:
        result.file_data["content"] = result.file_data["content"].removesuffix("\n")
    return result


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _line_ends(old: str, new: str) -> Iterable[tuple[str, str]]:
    """The text as it was given, and as it is in files whose lines end with CR LF: models are shown LF only."""
    yield old, new
    if "\n" in old and "\r" not in old:
        yield old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
