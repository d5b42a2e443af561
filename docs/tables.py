"""Tables of the docs that are made from the registries, so that they are never out of date."""

from softmaxlab.papers.facts import claim_facts, figure_facts, map_facts
from softmaxlab.papers.polarization import settings


def maps_table() -> str:
    head = "| map | non-negative | row-stochastic | shift-invariant | joint | learns |\n|---|---|---|---|---|---|\n"
    rows = [
        f"| `{m.name}` | "
        + " | ".join("yes" if holds else "" for holds in m.holds.values())
        + f" | {', '.join(m.parameters)} |"
        for m in map_facts().values()
    ]
    return head + "\n".join(rows) + "\n"


def figures_table() -> str:
    head = "| id | where | title | quick | paper |\n|---|---|---|---|---|\n"
    rows = [
        f"| `{f.id}` | {f.source}, {f.place} | {f.title} | {f.cost['quick']} | {f.cost['paper']} |"
        for f in figure_facts().values()
    ]
    return head + "\n".join(rows) + "\n"


def claims_table() -> str:
    head = "| id | where | statement | verdict |\n|---|---|---|---|\n"
    rows = [f"| `{c.id}` | {c.source}, {c.place} | {c.statement} | {c.expected} |" for c in claim_facts().values()]
    return head + "\n".join(rows) + "\n"


def paper_settings_table() -> str:
    """The polarization paper's Tables 1 to 3 beside our presets."""
    head = "| task | setting | the paper | our sweep `paper` | same |\n|---|---|---|---|---|\n"
    rows = [
        f"| {task} | `{name}` | {_listed(paper)} | {_listed(ours)} | {'yes' if paper == ours else 'no'} |"
        for task in settings.TABLES
        for name, paper, ours in settings.compare_settings(task)
    ]
    return head + "\n".join(rows) + "\n"


def _listed(values: tuple) -> str:
    return ", ".join(str(value) for value in values)


TABLES = {
    "maps": maps_table,
    "figures": figures_table,
    "claims": claims_table,
    "paper_settings": paper_settings_table,
}

if __name__ == "__main__":
    for table in TABLES.values():
        print(table())
