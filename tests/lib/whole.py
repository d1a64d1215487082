"""What an assertion says is printed whole, or nearly so: pytest cuts it to 240 characters, and a failure that does not come
again can only be read."""
import _pytest.assertion.rewrite as rewrite

MOST = 20000


def whole(obj, *args, **kwargs):
    text = repr(obj)
    return text if len(text) <= MOST else f"{text[:MOST // 2]} … {text[-MOST // 2:]}"


if hasattr(rewrite, "saferepr"):
    rewrite.saferepr = whole
