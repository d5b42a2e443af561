"""Mathematics that needs no network: the TeX that our texts use, as MathML, which browsers draw themselves."""

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, tostring

TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|.", re.DOTALL)
# in the order of Unicode
GREEK_NAMES = (
    "alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu",
    "xi", "omicron", "pi", "rho", "varsigma", "sigma", "tau", "upsilon", "varphi", "chi", "psi", "omega",
)  # fmt: skip
GREEK = {name: chr(ord("α") + i) for i, name in enumerate(GREEK_NAMES)}
LETTERS = GREEK | {
    "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ",
    "Psi": "Ψ", "Omega": "Ω", "epsilon": "ϵ", "phi": "ϕ", "ell": "ℓ", "partial": "∂", "nabla": "∇", "infty": "∞",
    "top": "⊤", "perp": "⊥",
}  # fmt: skip
SIGNS = {
    "ge": "≥", "le": "≤", "ne": "≠", "ll": "≪", "gg": "≫", "approx": "≈", "equiv": "≡", "sim": "∼", "propto": "∝",
    "in": "∈", "to": "→", "times": "×", "cdot": "·", "pm": "±", "mid": "∣", "dots": "…", "langle": "⟨", "rangle": "⟩",
    "sum": "∑", "prod": "∏", "int": "∫", "|": "‖", "{": "{", "}": "}",
}  # fmt: skip
FUNCTIONS = ("log", "exp", "max", "min", "tr", "det", "sinh", "cosh", "tanh", "lim")
SPACES = {",": "0.17em", ";": "0.28em", "quad": "1em", " ": "0.25em"}
# combining: browsers without a font for mathematics set an accent of its own too low
ACCENTS = {"dot": "\u0307", "ddot": "\u0308", "tilde": "\u0303", "hat": "\u0302", "bar": "\u0304"}
# first capital of each alphabet, and the letters that Unicode keeps elsewhere
ALPHABETS = {
    "mathcal": (0x1D49C, {"B": "ℬ", "E": "ℰ", "F": "ℱ", "H": "ℋ", "I": "ℐ", "L": "ℒ", "M": "ℳ", "R": "ℛ"}),
    "mathbf": (0x1D400, {}),
    "mathbb": (0x1D538, {"C": "ℂ", "H": "ℍ", "N": "ℕ", "P": "ℙ", "Q": "ℚ", "R": "ℝ", "Z": "ℤ"}),
}


def mathml(tex: str) -> str:
    """Return a formula as a `<math>` element; what is not known is shown as it was written."""
    return tostring(_element("math", [_row(_Formula(tex).parts())]), encoding="unicode", short_empty_elements=False)


def _element(tag: str, content: str | Iterable[Element], **attributes: str) -> Element:
    """Return an element that holds a text or other elements."""
    element = Element(tag, attributes)
    if isinstance(content, str):
        element.text = content
    else:
        element.extend(content)
    return element


def _row(parts: Iterable[Element]) -> Element:
    """Return one element, as scripts and fractions ask for."""
    return _element("mrow", parts)


class _Formula:
    """A reader of tokens, left to right."""

    def __init__(self, tex: str):
        self.tokens = [token for token in TOKEN.findall(tex) if not token.isspace()]
        self.place = 0

    def parts(self) -> list[Element]:
        """Read up to the end, or to the brace that closes a group."""
        parts = []
        while self.place < len(self.tokens):
            if self.tokens[self.place] == "}":
                self.place += 1
                break
            parts += self._scripted()
        return parts

    def _scripted(self) -> list[Element]:
        """Read an atom with what stands below and above it."""
        base = [_row([])] if self._ahead() in ("^", "_") else self._atom(self._next())
        below: list[Element] = []
        above: list[Element] = []
        while self._ahead() in ("^", "_", "'"):
            sign = self._next()
            if sign == "_":
                below += self._argument()
            else:
                above += [_element("mo", "′")] if sign == "'" else self._argument()
        if not (below or above):
            return base
        first, last = base[:-1], base[-1]  # a function's name is followed by a space: the scripts belong to the last
        if below and above:
            return [*first, _element("msubsup", [last, _row(below), _row(above)])]
        return [*first, _element("msub" if below else "msup", [last, _row(below or above)])]

    def _ahead(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _next(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1] if self.place <= len(self.tokens) else ""

    def _argument(self) -> list[Element]:
        """Read a group, a command with its own arguments, or one character."""
        token = self._next()
        if token.isdigit():
            return [_element("mn", token)]
        return self._atom(token)

    def _atom(self, token: str) -> list[Element]:
        if token == "{":
            return [_row(self.parts())]
        if token.startswith("\\"):
            return self._command(token[1:])
        if token.isdigit() or (token == "." and self._ahead().isdigit()):
            while self._ahead().isdigit() or (self._ahead() == "." and "." not in token):
                token += self._next()
            return [_element("mn", token)]
        if token.isalpha():
            return [_element("mi", token)]
        return [_element("mo", {"-": "−"}.get(token, token))]

    def _command(self, name: str) -> list[Element]:
        if name in LETTERS:
            upright = name in ("top", "perp", "infty") or name[0].isupper()
            return [_element("mi", LETTERS[name], **({"mathvariant": "normal"} if upright else {}))]
        if name in SIGNS:
            return [_element("mo", SIGNS[name])]
        if name in FUNCTIONS:
            return [_element("mi", name), _element("mspace", "", width="0.17em")]
        if name in SPACES:
            return [_element("mspace", "", width=SPACES[name])]
        if name == "frac":
            return [_element("mfrac", [_one(self._argument()), _one(self._argument())])]
        if name == "sqrt":
            return [_element("msqrt", self._argument())]
        if name in ACCENTS:
            return [_element("mi", f"{_letters(self._argument())}{ACCENTS[name]}")]
        if name in ("mathrm", "text", *ALPHABETS):
            return [_element("mi", _in_alphabet(name, _letters(self._argument())), mathvariant="normal")]
        return [_element("mtext", f"\\{name}")]


def _one(parts: list[Element]) -> Element:
    return parts[0] if len(parts) == 1 else _row(parts)


def _letters(parts: Iterable[Element]) -> str:
    """Return the text of elements without their marks."""
    return "".join("".join(part.itertext()) for part in parts)


def _in_alphabet(alphabet: str, text: str) -> str:
    if alphabet not in ALPHABETS:
        return text
    first, elsewhere = ALPHABETS[alphabet]
    return "".join(elsewhere.get(c, chr(first + ord(c) - ord("A")) if "A" <= c <= "Z" else c) for c in text)
