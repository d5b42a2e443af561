"""Mathematics that needs no network: the TeX that our texts use, as MathML, which browsers draw themselves."""

import re
from html import escape

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
    """A formula as a `<math>` element; what is not known is shown as it was written."""
    return f"<math><mrow>{_Formula(tex).row()}</mrow></math>"


class _Formula:
    """A reader of tokens, left to right."""

    def __init__(self, tex: str):
        self.tokens = [token for token in TOKEN.findall(tex) if not token.isspace()]
        self.place = 0

    def row(self) -> str:
        """Up to the end, or to the brace that closes a group."""
        parts = []
        while self.place < len(self.tokens):
            if self.tokens[self.place] == "}":
                self.place += 1
                break
            parts.append(self._scripted())
        return "".join(parts)

    def _scripted(self) -> str:
        """An atom with what stands below and above it."""
        base = "<mrow></mrow>" if self._ahead() in ("^", "_") else self._atom(self._next())
        below = above = ""
        while self._ahead() in ("^", "_", "'"):
            sign = self._next()
            if sign == "_":
                below += self._argument()
            else:
                above += "<mo>′</mo>" if sign == "'" else self._argument()
        if below and above:
            return f"<msubsup>{base}{_one(below)}{_one(above)}</msubsup>"
        if below:
            return f"<msub>{base}{_one(below)}</msub>"
        return f"<msup>{base}{_one(above)}</msup>" if above else base

    def _ahead(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _next(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1] if self.place <= len(self.tokens) else ""

    def _argument(self) -> str:
        """A group, a command with its own arguments, or one character."""
        token = self._next()
        if token == "{":
            return _one(self.row())
        return f"<mn>{token}</mn>" if token.isdigit() else self._atom(token)

    def _atom(self, token: str) -> str:
        if token == "{":
            return _one(self.row())
        if token.startswith("\\"):
            return self._command(token[1:])
        if token.isdigit() or (token == "." and self._ahead().isdigit()):
            while self._ahead().isdigit() or (self._ahead() == "." and "." not in token):
                token += self._next()
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{escape(token)}</mi>"
        return f"<mo>{escape({'-': '−'}.get(token, token))}</mo>"

    def _command(self, name: str) -> str:
        if name in LETTERS:
            upright = ' mathvariant="normal"' if name in ("top", "perp", "infty") or name[0].isupper() else ""
            return f"<mi{upright}>{LETTERS[name]}</mi>"
        if name in SIGNS:
            return f"<mo>{SIGNS[name]}</mo>"
        if name in FUNCTIONS:
            return f'<mi>{name}</mi><mspace width="0.17em"/>'
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}"/>'
        if name == "frac":
            return f"<mfrac>{self._argument()}{self._argument()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self._argument()}</msqrt>"
        if name in ACCENTS:
            return f"<mi>{re.sub('<[^>]*>', '', self._argument())}{ACCENTS[name]}</mi>"
        if name in ("mathrm", "text", *ALPHABETS):
            return _lettered(name, re.sub("<[^>]*>", "", self._argument()))
        return f"<mtext>{escape(chr(92) + name)}</mtext>"


def _one(markup: str) -> str:
    """One element, as scripts and fractions ask for."""
    return f"<mrow>{markup}</mrow>"


def _lettered(alphabet: str, text: str) -> str:
    if alphabet in ALPHABETS:
        first, elsewhere = ALPHABETS[alphabet]
        text = "".join(elsewhere.get(c, chr(first + ord(c) - ord("A")) if "A" <= c <= "Z" else c) for c in text)
    return f'<mi mathvariant="normal">{text}</mi>'
