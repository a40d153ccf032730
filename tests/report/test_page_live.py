"""The live page's server, asked without a browser."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
from made_runs import make_run

from masp.errors import UserError
from masp.report.page.live import LiveContent, LiveServer


@pytest.fixture
def server(tmp_path):
    make_run(tmp_path / "one", rows=4)
    server = LiveServer(LiveContent([tmp_path]))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def ask(url, **headers):
    """Status, headers and body."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def test_only_the_address_with_the_token_is_answered(server):
    root = server.url.replace(server.token + "/", "")
    assert server.url.startswith("http://127.0.0.1:") and len(server.token) >= 24
    assert ask(server.url)[0] == 200
    for url in (root, root + "data", root + "x" * 24 + "/", server.url + "../etc/passwd", server.url + "more"):
        assert ask(url)[0] == 404, url


def test_page_with_another_host_name_is_refused(server):
    assert ask(server.url + "data", Host="evil.example:80")[0] == 404


def test_content_is_sent_once_until_it_changes(server, tmp_path):
    _, headers, body = ask(server.url + "data")
    page = json.loads(gzip.decompress(body))
    assert headers["Content-Encoding"] == "gzip" and page["title"] == "planted-grid"
    again = {"If-None-Match": headers["ETag"]}
    assert ask(server.url + "data", **again)[0] == 304
    server.content._wait_until = 0.0
    row = json.loads((tmp_path / "one" / "metrics.jsonl").read_text().splitlines()[-1])
    with open(tmp_path / "one" / "metrics.jsonl", "a") as file:
        file.write(json.dumps({**row, "frames": 5000}) + "\n")
    status, _, body = ask(server.url + "data", **again)
    assert status == 200 and "5,000" in gzip.decompress(body).decode()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])
def test_addresses_that_others_can_reach_need_a_word(tmp_path, host):
    content = LiveContent([make_run(tmp_path / "one", rows=2)])
    with pytest.raises(UserError, match="--remote"):
        LiveServer(content, host)


def test_command_prints_the_address_and_ends_at_ctrl_c(tmp_path):
    make_run(tmp_path / "one", rows=2)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    code = "import sys; from masp.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "watch", str(tmp_path)]
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts its background jobs
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    signal.signal(signal.SIGINT, ignored)
    try:
        url = process.stdout.readline().split()[1]
        assert ask(url)[0] == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in errors
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}, "it only reads"
