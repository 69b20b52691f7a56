"""A support agent that may see more than it may read, and read more than it may write.

    python ticket_agent.py

Each level of the rules is used once: `write` for answers, `read` for tickets, `view` for customers (their names are
there, what is written about them is not), and `none` for keys, which do not exist for the agent.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from agentvfs import PermissionDeniedError, Sandbox

FILES = {
    "tickets/1017.md": "From: ada\nThe export stops after 100 rows.\n",
    "answers/README.md": "One file for each ticket.\n",
    "customers/ada.md": "Contract until June, 40 seats.\n",
    "keys/mail.txt": "secret\n",
}

LEVELS = ["/**=read", "/answers/**=write", "/customers/**=view", "/keys/**=none"]


def answer_ticket(sandbox: Sandbox, number: int) -> None:
    """What the agent does: it reads a ticket, looks who asks, and writes an answer."""
    ticket = sandbox.read_file(f"tickets/{number}.md")
    name = ticket.partition("From: ")[2].partition("\n")[0]
    is_customer = sandbox.files.exists(f"customers/{name}.md")
    greeting = f"Dear {name}" if is_customer else "Hello"
    sandbox.write_file(f"answers/{number}.md", f"{greeting},\nplease update to 2.1.\n")


def attempt(sandbox: Sandbox, what: str, command: str) -> None:
    result = sandbox.run(command)
    said = (result.stdout + result.stderr).strip().splitlines()
    print(f"{what:8} {command:32} -> {said[-1] if said else 'done'}")


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        company = Path(place)
        for name, text in FILES.items():
            (company / name).parent.mkdir(exist_ok=True)
            (company / name).write_text(text)
        with Sandbox.from_local(company, "read-only", permissions=LEVELS) as sandbox:
            answer_ticket(sandbox, 1017)
            attempt(sandbox, "write", "cat answers/1017.md")
            attempt(sandbox, "read", "echo more >> tickets/1017.md")
            attempt(sandbox, "view", "ls customers")
            attempt(sandbox, "view", "cat customers/ada.md")
            attempt(sandbox, "none", "ls keys")
            try:
                sandbox.write_file("tickets/1017.md", "closed")
            except PermissionDeniedError as error:
                print("refused:", error)
            print("applied:", *(path for path, _ in sandbox.apply().files))
        print((company / "answers/1017.md").read_text(), end="")


if __name__ == "__main__":
    main()
