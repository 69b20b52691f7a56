"""Path rules: what a sandbox sees of its files, and what it may do with them.

A rule is a pattern and a level. A pattern begins at the root of the sandbox's files (`/docs/**`) or with `**/` for any
depth. The levels are `none` (hidden), `view` (listed), `read` and `write`. The most exact rule about a path decides, and
what no rule allows is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from . import _checks, _native
from .errors import InvalidInputError

Level = Literal["none", "view", "read", "write"]


class RuleDict(TypedDict, total=False):
    """A rule as a dict."""

    pattern: str
    permission: str
    priority: int


@dataclass(frozen=True)
class Rule:
    """A pattern and what it allows.

    >>> Rule("/docs/**", "write")
    Rule(pattern='/docs/**', level='write', priority=0)
    >>> str(Rule("**/.env", "none", priority=10))
    '**/.env=none@10'
    """

    pattern: str
    level: str
    #: A rule with a higher priority decides before all with a lower one.
    priority: int = 0
    #: Where it comes from, such as `preset development`.
    origin: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _checks.utf8("pattern", self.pattern):
            raise InvalidInputError("a rule has a pattern, such as /docs/**", code="bad-rules")
        _checks.utf8("level", self.level)
        _checks.whole("priority", self.priority, -(2**31), 2**31 - 1)

    @classmethod
    def parse(cls, text: str) -> Rule:
        """The rule of a line, `PATTERN=LEVEL` or `PATTERN=LEVEL@PRIORITY`.

        >>> Rule.parse("/src/**=read").level
        'read'
        """
        return cls(*_native.parse_rule(text, ""))

    def __str__(self) -> str:
        priority = f"@{self.priority}" if self.priority else ""
        return f"{self.pattern}={self.level}{priority}"


#: A rule in any of its forms.
RuleLike = Rule | str | RuleDict | Mapping[str, object]


@dataclass(frozen=True)
class Preset:
    """A list of rules with a name."""

    name: str
    description: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Explanation:
    """What holds for a path, and why."""

    path: str
    level: str
    #: The rule that decides; `None` if no rule is about the path.
    rule: Rule | None


_registered: dict[str, Preset] = {}


def rule_of(rule: RuleLike) -> Rule:
    """A rule from any of its forms, checked.

    >>> rule_of({"pattern": "/docs/**", "permission": "write", "priority": 0})
    Rule(pattern='/docs/**', level='write', priority=0)
    """
    if isinstance(rule, Rule):
        return Rule(*_native.parse_rule(str(rule), rule.origin))
    if isinstance(rule, str):
        return Rule.parse(rule)
    given = dict(rule)
    unknown = given.keys() - {"pattern", "permission", "priority"}
    if unknown or not {"pattern", "permission"} <= given.keys():
        raise InvalidInputError(
            f"a rule has 'pattern', 'permission' and perhaps 'priority', and not {sorted(given)}",
            code="bad-rules",
        )
    pattern, level, priority = given["pattern"], given["permission"], given.get("priority", 0)
    if not (isinstance(pattern, str) and isinstance(level, str) and isinstance(priority, int)):
        raise InvalidInputError(
            "the pattern and permission of a rule are texts, and its priority is a whole number",
            code="bad-rules",
        )
    return Rule.parse(str(Rule(pattern, level, priority)))


def list_presets() -> list[str]:
    """The names of all presets.

    >>> list_presets()[:5]
    ['read-only', 'full-access', 'view-only', 'agent-safe', 'development']
    """
    return [name for name, _ in _native.presets()] + list(_registered)


def get_preset(name: str) -> Preset:
    """A preset by its name.

    >>> get_preset("read-only").rules
    (Rule(pattern='/**', level='read', priority=0),)
    """
    if name in _registered:
        return _registered[name]
    rules = tuple(Rule(*parts) for parts in _native.preset_rules(name))
    return Preset(name, dict(_native.presets())[name], rules)


def extend_preset(
    base: str | Preset,
    additions: Iterable[RuleLike] = (),
    overrides: Iterable[RuleLike] = (),
    *,
    name: str | None = None,
    description: str | None = None,
) -> Preset:
    """A preset with more rules. Overrides decide before everything in the base.

    >>> mine = extend_preset("read-only", ["/docs/**=write"], ["/docs/secret.md=none"])
    >>> mine.rules[-1]
    Rule(pattern='/docs/secret.md', level='none', priority=1)
    """
    preset = base if isinstance(base, Preset) else get_preset(base)
    highest = max((rule.priority for rule in preset.rules), default=0)
    added = tuple(rule_of(rule) for rule in additions)
    decisive = tuple(
        Rule(rule.pattern, rule.level, rule.priority + highest + 1) for rule in map(rule_of, overrides)
    )
    return Preset(
        name or f"{preset.name}+",
        description or preset.description,
        preset.rules + added + decisive,
    )


def register_preset(name: str, preset: Preset | Iterable[RuleLike]) -> Preset:
    """Makes a preset known by a name, for this process.

    >>> made = register_preset("docs-only", ["/**=read", "/docs/**=write"])
    >>> get_preset("docs-only") == made
    True
    """
    if _checks.optional("name", name) is None or name in dict(_native.presets()):
        raise InvalidInputError(f"'{name}' is a preset of the library", code="bad-name")
    if isinstance(preset, Preset):
        made = Preset(name, preset.description, preset.rules)
    else:
        made = Preset(name, "", tuple(rule_of(rule) for rule in preset))
    _registered[name] = made
    return made


def explain(path: str, rules: str | Preset | Iterable[RuleLike]) -> Explanation:
    """Which rule decides about a path.

    >>> explain("/.env", "agent-safe").level
    'none'
    """
    level, deciding = _native.explain(texts(rules), path)
    return Explanation(path, level, None if deciding is None else Rule(*deciding))


def texts(rules: str | Preset | Iterable[RuleLike]) -> list[tuple[str, str]]:
    """The rules of a preset, or these rules: each as one text, with where it comes from."""
    if isinstance(rules, str):
        rules = get_preset(rules)
    made = rules.rules if isinstance(rules, Preset) else map(rule_of, rules)
    return [(str(rule), rule.origin) for rule in made]
