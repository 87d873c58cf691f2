"""The row types of the method table."""

import enum
from dataclasses import dataclass


class State(enum.Enum):
    """Whether a member works yet."""

    BUILT = "built"
    PLANNED = "planned"


class Kind(enum.Enum):
    """What a member of the class is."""

    METHOD = "method"
    STATIC = "static"
    PROPERTY = "property"


class FunctionKind(enum.Enum):
    """What a name beside the class is."""

    FUNCTION = "function"
    CLASS = "class"
    EXCEPTION = "exception"


@dataclass(frozen=True, slots=True)
class Method:
    """One public member of `SessionDB`.

    `signature` is the text of `inspect.signature` of the bound member without annotations; `returns` tells
    the result in short, `unspecified` where callers may not rely on any. A property has the signature `()`.
    """

    name: str
    signature: str
    returns: str
    state: State
    area: str
    kind: Kind = Kind.METHOD


@dataclass(frozen=True, slots=True)
class Constant:
    """One public constant of the class `SessionDB`."""

    name: str
    value: int
    state: State
    area: str


@dataclass(frozen=True, slots=True)
class Function:
    """One public name beside `SessionDB`.

    The signature of a class is that of its constructor. An exception class has the signature `(*args)`, as
    callers catch it and do not build it, and its base class in `returns`.
    """

    name: str
    signature: str
    returns: str
    state: State
    area: str
    kind: FunctionKind = FunctionKind.FUNCTION
