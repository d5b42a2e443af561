"""Values that nobody expects, and ways to damage a text or a file."""

import copy
import json
import random
from typing import Any

TEXTS = (
    "", " ", "nan", "inf", "-inf", "1e999", "-1", "0", "-0.0", "1.5", "0x10", "1_000", "true", "null", "None", "{}",
    "[]", "[[]]", "{", '"', "'", "\\", "∞", "½", "é", "\u202e", "%s", "{0}", "=", "==", "--", "-", "@", "~nosuchuser",
    "../../etc/passwd", "/dev/null", "/nonexistent/folder", "a" * 5000, "9" * 20, "9" * 400, "[" * 3000, "1,2,3",
    "0-99999999999", "softmax", "<script>alert(1)</script>", "; rm -rf /", "$(id)", "1e308", "18446744073709551616",
    "[" * 100 + "]" * 100, '{"kind": "training.Run"}', '{"a": 1, "a": 2}', "[NaN]", "1e-400",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, -0.0, 10**20, 10**400, 1e308, -1e308, 1e-320, "", "softmax", "a" * 5000, "<script>",
    [], [[]], [1, "a"], {}, {"kind": "training.Run"}, {"kind": "nope"}, {"kind": None}, [None], [[1], [1, 2]],
    ["x"] * 3,     "NaN", [1e308] * 4, {"a": {"b": {}}},
)  # fmt: skip


def text(draw: random.Random) -> str:
    return draw.choice(TEXTS)


def paths(value: Any, prefix: tuple = ()) -> list[tuple]:
    """Where all items of nested dicts and lists are."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    here = [(*prefix, name) for name, _ in items]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return here + [path for name, item in inner for path in paths(item, (*prefix, name))]


def mutated(value: Any, draw: random.Random) -> tuple[Any, str]:
    """A copy with one item replaced, removed or added, and the name of the field that this is in."""
    value = copy.deepcopy(value)
    path = draw.choice(paths(value))
    at = value
    for name in path[:-1]:
        at = at[name]
    field = next((name for name in reversed(path) if isinstance(name, str)), "")
    change = draw.randrange(4)
    if change == 0:
        del at[path[-1]]
    elif change == 1 and isinstance(at, dict):
        field = "no_such_field"
        at[field] = draw.choice(VALUES)
    else:
        at[path[-1]] = draw.choice(VALUES)
    return value, field


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Bytes with some flipped, cut off, put in or doubled."""
    change, size = draw.randrange(6), len(content)
    at = draw.randrange(size + 1)
    if change == 0:
        return content[:at]
    if change == 1:
        return content[:at] + bytes(draw.randrange(256) for _ in range(draw.randrange(1, 9))) + content[at:]
    if change == 2 and size:
        at = min(at, size - 1)
        return content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :]
    if change == 3:
        return content[at:]
    if change == 4:
        return draw.choice((b"", b"\0" * 8, b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 5000, content + content))
    return content[:at] + text(draw).encode() + content[at:]


def damaged_json(content: bytes, draw: random.Random) -> bytes:
    """A JSON document with one item changed, or its bytes damaged."""
    if draw.random() < 0.3:
        return damaged(content, draw)
    value, _ = mutated(json.loads(content), draw)
    return json.dumps(value).encode()
