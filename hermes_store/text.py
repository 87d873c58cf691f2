"""Text that SQLite can hold (rule CODEC-1)."""

_SURROGATES = dict.fromkeys(range(55296, 57344), 65533)


def scrub(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD: SQLite stores UTF-8, which has none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.translate(_SURROGATES)
    return text
