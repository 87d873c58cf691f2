"""Statements in one spelling, so that two can be compared: case, white space, quotes and comments do not matter."""

import re

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<text>[xX]?'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])
    |(?P<word>[^\W\d][\w$]*|[?:@$][\w$]+)
    |(?P<number>\d[\w.]*|\.\d[\w.]*)
    |(?P<sign><>|!=|<=|>=|==|<<|>>|\|\||->>|->|.)""",
    re.VERBOSE | re.DOTALL,
)
_SIMPLE_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_CREATES = frozenset({"table", "view", "trigger", "index"})
_MEANINGLESS = (("if", "not", "exists"), ("for", "each", "row"))


def tokens(sql: str) -> list[str]:
    """The tokens of a statement: words and names in lower case, names without needless quotes, literals as they are."""
    found = []
    for match in _TOKEN.finditer(sql):
        kind, text = match.lastgroup, match.group()
        if kind == "skip":
            continue
        if kind == "quoted":
            found.append(spelled(text[1:-1].replace(text[-1] * 2, text[-1])))
        else:
            found.append(text if kind == "text" else text.lower())
    while found and found[-1] == ";":
        found.pop()
    return found


def normalised(sql: str) -> str:
    """A statement in one spelling."""
    found = tokens(sql)
    for phrase in _MEANINGLESS:
        found = _without(found, phrase)
    return " ".join(found)


def _without(found: list[str], phrase: tuple[str, ...]) -> list[str]:
    """The tokens without the first occurrence of a phrase in the head of a CREATE statement."""
    end = found.index("begin") if "begin" in found else len(found)
    for start in range(1, end - len(phrase) + 1):
        if tuple(found[start : start + len(phrase)]) == phrase and (phrase[0] != "if" or found[start - 1] in _CREATES):
            return [*found[:start], *found[start + len(phrase) :]]
    return found


def spelled(text: object) -> str:
    """A name in one spelling; SQLite does not tell the cases of names apart."""
    lowered = str(text).lower()
    return lowered if _SIMPLE_NAME.match(lowered) else '"' + lowered.replace('"', '""') + '"'
