"""Sandboxes and vaults for other people's frameworks.

Each module belongs to one framework and imports it, so none of them is imported by `agentvfs` itself; an extra installs
the framework in a version that fits (`pip install agentvfs[deepagents]`). All of them stand on the same class
(`agentvfs.workspace.Workspace`) and are opened on the same things:

- a `Sandbox` that the program made, and keeps the care of: for reviewing and applying what the agent did;
- a name (`"web"`): the vault of that name, whose changes stay in it;
- a path (`Path("project")`): a sandbox on that directory, which is discarded when it is closed.
"""
