"""The examples run as scripts, write nothing unless asked, and show what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))


def run(script: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> dict[str, str]:
    """What each example prints, run once, in an empty folder of its own; it draws to a file outside it."""
    texts = {}
    for script in EXAMPLES:
        folder, out = tmp_path_factory.mktemp("empty"), tmp_path_factory.mktemp("out") / "figure.png"
        texts[script.stem] = run(script, folder, str(out))
        assert list(folder.iterdir()) == []
        assert out.read_bytes().startswith(b"\x89PNG")
    return texts


def test_every_example_has_a_gallery_header():
    assert len(EXAMPLES) >= 6
    for script in EXAMPLES:
        assert re.match(r'"""\n.+\n=+\n\n', script.read_text()), script.name


def test_without_a_path_nothing_is_written(tmp_path):
    script = next(script for script in EXAMPLES if script.stem == "plot_compare_maps")
    run(script, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_own_losses_polarize(printed):
    shares = [float(x) for x in re.findall(r"0\.\d{4}", printed["plot_own_loss"])]
    assert len(shares) == 4
    # at t = 1e6 the losers of p tokens keep about 2(p−1)/(p log²t) = 1 % together, and more before they are equal
    assert min(shares) > 0.9


def test_softmax_is_sparse_and_sigmoid_is_dense(printed):
    share = {line.split()[0]: float(line.split()[2]) for line in printed["plot_compare_maps"].splitlines()}
    assert share["softmax"] > 0.98
    assert share["relu_norm"] == 1.0
    assert share["sigmoid"] < 0.3


def test_descent_differs_from_flow_in_proportion_to_lr_and_adam_picks_another_token(printed):
    text = printed["plot_descent_and_flow"]
    per_lr = [float(x) for x in re.findall(r"per lr ([\d.]+)", text)]
    # the difference is c·lr + O(lr²): halving lr four times, c settles
    assert per_lr[-1] == pytest.approx(per_lr[-2], rel=0.05)
    flow, adam = re.search(r"flow picks token (\d), Adam token (\d)", text).groups()
    assert flow == "0"
    assert adam != "0"


def test_heads_of_the_corrected_parameters_reach_the_bayes_risk_and_more_heads_follow_a_ring_better(printed):
    text = printed["plot_specialization_own_prior"]
    risk, best = (float(x) for x in re.search(r"Bayes risk ([\d.]+).*IV\.2: ([\d.]+)", text).groups())
    assert best == pytest.approx(risk, abs=0.003)  # several standard errors, which the example prints
    ring = [float(x) for x in re.findall(r"H = \d: ([\d.]+)", text)]
    assert ring == sorted(ring, reverse=True)


def test_bayes_softmax_is_best_on_every_prior_and_never_below_the_risk(printed):
    rows = re.findall(
        r"softmax ([\d.]+)  softmax1 ([\d.]+)  bayes_softmax ([\d.]+)  Bayes risk ([\d.]+)",
        "".join(printed["plot_specialization_which_map"]),
    )
    assert len(rows) == 3
    for softmax, softmax1, bayes, risk in (map(float, row) for row in rows):
        assert risk - 0.005 < bayes < min(softmax, softmax1)


def test_as_many_heads_as_spikes_are_enough(printed):
    rows = re.findall(r"H = (\d): loss ([\d.]+) \(Bayes risk ([\d.]+)\)", printed["plot_specialization_how_many_heads"])
    above = {int(heads): float(loss) - float(risk) for heads, loss, risk in rows}
    assert above[3] > 0.05
    assert above[4] < 0.005
