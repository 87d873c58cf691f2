"""Hypothesis strategies: texts with everything that Python allows in them, JSON values, transcripts."""

from typing import Any

from hypothesis import strategies as st

LOW_SURROGATES = st.characters(min_codepoint=0xDC00, max_codepoint=0xDFFF, categories=["Cs"])
"""Alone they are never half of a pair, so JSON cannot join two of them into another character."""

any_text: st.SearchStrategy[str] = st.text(
    st.one_of(st.characters(), LOW_SURROGATES, st.sampled_from("\0\r\n\t [](){}#\"'<>\\")), max_size=30
)
json_scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), any_text
)
json_values: st.SearchStrategy[Any] = st.recursive(
    json_scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(any_text, inner, max_size=4)),
    max_leaves=8,
)
json_containers: st.SearchStrategy[Any] = st.one_of(
    st.lists(json_values, max_size=4), st.dictionaries(any_text, json_values, max_size=4)
)
anything: st.SearchStrategy[Any] = st.one_of(
    json_values, st.binary(max_size=8), st.sets(st.integers(), max_size=3), st.tuples(json_values), st.just(object)
)
