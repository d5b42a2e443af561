"""The server from outside: who is refused, what addresses give, downloads, and the command line."""

import csv
import io
import json
import os
import re
import socket
import sys
import threading

import pytest

from softmaxlab.app import polarization, results
from softmaxlab.app.server import HOST, create, listen, page_at
from softmaxlab.app.states import PAGES, Polarization
from softmaxlab.cli import main
from softmaxlab.core.simulate import simulate
from softmaxlab.core.spec import from_json
from softmaxlab.errors import SpecError
from tests.app.saved import save

ROUNDING = 1e-15  # a CSV has every digit
LONG = 20  # seconds that nothing here takes


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    save(folder / "probed" / "one", patterns=True)
    save(folder.parent / "secret")
    os.symlink(folder.parent / "secret", folder / "linked")
    return folder


@pytest.fixture(scope="module")
def client(root):
    return create(root).server.test_client()


@pytest.mark.parametrize("path", ["/", "/_dash-layout", "/data/polarization.csv", "/assets/explore.css"])
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.example"}, 400),
        ({"Host": "evil.example:8050"}, 400),
        ({"Host": "127.0.0.1.evil.example"}, 400),
        ({"Host": "127.0.0.1:8050", "Origin": "http://evil.example"}, 403),
        ({"Host": "127.0.0.1:8050", "Origin": "null"}, 403),
        ({"Host": "127.0.0.1:8050", "Origin": "http://["}, 403),
        ({"Host": "localhost:8050", "Origin": "http://localhost:9999"}, 403),
        ({"Host": "localhost:8050", "Origin": "https://localhost:8050"}, 403),
        ({"Host": "127.0.0.1:8050", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Host": "localhost:8050", "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Host": "localhost:8050", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
        ({"Host": "127.0.0.1:8050", "Origin": "http://127.0.0.1:8050"}, 200),
        ({"Host": "localhost:8050"}, 200),
    ],
)
def test_only_this_machine_is_answered(client, path, headers, code):
    with client.get(path, headers=headers) as answer:
        assert answer.status_code == code


def test_a_link_from_elsewhere_opens_a_page_but_starts_no_download(client):
    link = {"Host": HOST, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/attention?bias=1", headers=link).status_code == 200
    assert client.get("/data/attention.csv", headers=link).status_code == 403


def test_no_other_page_can_frame_a_view(client):
    framed = {"Host": HOST, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert client.get("/attention", headers=framed).status_code == 403
    for path in ("/", "/data/attention.json", "/nowhere.css"):
        held = client.get(path, headers={"Host": HOST}).headers
        assert (held["X-Frame-Options"], held["Content-Security-Policy"]) == ("DENY", "frame-ancestors 'none'")


@pytest.mark.parametrize("result", ["../secret", "linked", "/etc", "probed/../../secret", "..%2Fsecret", "probed"])
def test_paths_do_not_leave_the_folder(client, result):
    answer = client.get(f"/data/probe.json?result={result}", headers={"Host": HOST})
    assert answer.status_code == 400
    assert answer.text.count("\n") == 1
    assert "unknown result" in answer.text


@pytest.mark.parametrize(
    "path", ["/assets/../server.py", "/data/..%2fserver.csv", "/data/polarization.py", "/data/x.csv"]
)
def test_nothing_else_is_served(client, path):
    answer = client.get(path, headers={"Host": HOST})
    assert answer.status_code == 404 or b"import" not in answer.data


def test_a_saved_result_is_found_and_downloaded(client, root):
    answer = client.get("/data/probe.json?result=probed/one", headers={"Host": HOST})
    assert json.loads(answer.text) == json.loads((root / "probed" / "one" / "report.json").read_text())
    rows = list(csv.DictReader(io.StringIO(client.get("/data/probe.csv", headers={"Host": HOST}).text)))
    assert len(rows) == 5


def test_downloads_hold_the_view(client):
    query = Polarization(horizon=2.0).query()
    rows = list(csv.DictReader(io.StringIO(client.get(f"/data/polarization.csv{query}", headers={"Host": HOST}).text)))
    result = polarization.solve(Polarization(horizon=2.0))
    assert float(rows[-1]["weights_0"]) == pytest.approx(result["weights"][-1, 0], abs=ROUNDING)
    assert len(rows) == len(result["t"])
    spec = from_json(client.get(f"/data/polarization.json{query}", headers={"Host": HOST}).text)
    assert simulate(spec)["loss"][-1] == result["loss"][-1]
    for page in ("attention", "specialization"):
        quick = "?tau=1" if page == "specialization" else ""
        assert client.get(f"/data/{page}.csv{quick}", headers={"Host": HOST}).text.count("\n") > 3
        from_json(client.get(f"/data/{page}.json", headers={"Host": HOST}).text)


def test_the_page_loads_nothing_from_elsewhere(client):
    html = client.get("/", headers={"Host": HOST}).text
    assert not re.findall(r'(?:src|href)="(?:https?:)?//[^"]*', html)


def messages(parts: list) -> list[str]:
    return [part.children for part in parts if getattr(part, "role", None) == "alert"]


@pytest.mark.parametrize("name", PAGES)
def test_an_address_gives_its_page_and_a_bad_one_a_message(name, root):
    assert messages(page_at(f"/{name}", "", root)) == []
    (told,) = messages(page_at(f"/{name}", "?colour=red", root))
    assert "colour" in told
    (told,) = messages(page_at("/nowhere", "", root))
    assert "/polarization" in told


def test_without_any_result_the_probe_page_says_how_to_write_one(tmp_path):
    (shown,) = page_at("/probe", "", tmp_path)
    (told,) = messages(shown.children)
    assert "softmaxlab probe smollm2 --out" in told


@pytest.mark.parametrize("change", [{"heads": 3}, {"subjects": []}, {"heads": []}, {"text": None}, {"heads": [{}]}])
def test_a_damaged_result_is_told_in_one_line(tmp_path, change):
    path = save(tmp_path / "bad") / "report.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    (shown,) = page_at("/probe", "", tmp_path)
    (told,) = messages(shown.children)
    assert told.startswith("result 'bad' cannot be read")


def controls(parts: list) -> dict[str, object]:
    """What every control of the page Probe is set to."""
    (shown,) = parts
    return {name: part.value for name in shown if name and hasattr(part := shown[name], "value")}


def test_a_statistic_that_a_result_does_not_have_gives_the_sink_score(tmp_path):
    save(tmp_path / "fast", statistics="fast")
    save(tmp_path / "full")
    parts = page_at("/probe", "?result=fast&statistic=sparsity", tmp_path)
    assert messages(parts[0].children) == ["Probe.statistic 'sparsity' was not measured in result 'fast'"]
    found = controls(parts)
    assert (found["probe-result"], found["probe-statistic"]) == ("fast", "sink")
    assert set(parts[0]["probe-statistic"].options) == {"sink", "entropy", "total", "sink_value", "sink_output"}
    full = page_at("/probe", "?result=full&statistic=sparsity", tmp_path)
    assert messages(full[0].children) == []
    assert controls(full)["probe-statistic"] == "sparsity"


@pytest.mark.parametrize("query", ["?result=no", "?subject=7", "?layer=9&head=9", "?result=bad"])
def test_what_is_not_there_leaves_the_controls(tmp_path, query):
    (save(tmp_path / "bad") / "report.json").write_text('{"schema": "softmaxlab.probe/1", "heads": 3}')
    save(tmp_path / "one")
    parts = page_at("/probe", f"{query}&tokens=5" + ("" if "result" in query else "&result=one"), tmp_path)
    assert len(messages(parts[0].children)) == 1
    found = controls(parts)
    assert (found["probe-result"], found["probe-layer"], found["probe-tokens"]) == ("one", 0, 5)
    assert parts[0]["probe-result"].options == ["bad", "one"]
    assert parts[0]["probe-opened"].data == ["one", 0]


def test_only_reports_of_a_probe_are_results(tmp_path):
    for name, text in {"a": '{"rows": []}', "b": "[1]", "c": '{"schema": "other/1"}', "d": "\xff"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(text)
    save(tmp_path / "one")
    assert results.names(tmp_path) == ["one"]
    assert controls(page_at("/probe", "", tmp_path))["probe-result"] == "one"


def test_the_folder_is_not_searched_for_every_change(tmp_path, monkeypatch):
    now = 1000 * results.FRESH
    monkeypatch.setattr("time.monotonic", lambda: now)
    save(tmp_path / "one")
    assert results.names(tmp_path) == ["one"]
    save(tmp_path / "two")
    assert results.names(tmp_path) == ["one"]
    now += results.FRESH
    assert results.names(tmp_path) == ["one", "two"]
    (tmp_path / "two" / "report.json").unlink()
    with pytest.raises(SpecError, match="result 'two' cannot be read"):
        results.load(tmp_path, "two")


def test_a_busy_port_gives_the_next_one():
    with socket.socket() as busy:
        busy.bind((HOST, 0))
        busy.listen()
        port = busy.getsockname()[1]
        with listen(port) as opened:
            assert opened.getsockname()[0] == HOST
            assert opened.getsockname()[1] != port
    with listen(0) as opened:
        assert opened.getsockname()[1] > 0


def refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["explore", *arguments])
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    return err


def test_the_command_without_the_extra_or_a_folder(capsys, monkeypatch):
    assert "--out must be a folder" in refused(capsys, "--out", "nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert refused(capsys) == "error: the explorer needs dash: pip install 'softmaxlab[explore]'\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_browser_that_never_returns_does_not_hold_up_the_server(tmp_path, monkeypatch, capsys, terminal):
    asked, served, end = threading.Event(), threading.Event(), threading.Event()

    def hang(address: str) -> None:
        asked.set()
        end.wait(LONG)

    monkeypatch.setattr("webbrowser.open", hang)
    monkeypatch.setattr("softmaxlab.app.server.serve", lambda app, opened: (opened.close(), served.set()))
    monkeypatch.setattr("softmaxlab.app.server.warm", lambda: None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    with pytest.raises(SystemExit):
        main(["explore", "--port", "0"])
    assert served.is_set()
    assert asked.wait(LONG if terminal else 0) == terminal
    end.set()
