"""`masp push` and `masp pull` with the real client library of Hugging Face, against a small server in this process.

The server speaks the part of the Hub's protocol that creating a repository, a commit and a download need.
"""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed; 'make interop' installs it")

import masp
from masp import sharing
from masp.cli.main import main

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ACTIONS = masp.ActionSet(2, [(0, 1)], ["left", "right"], "Corridor-v0")


class Hub(BaseHTTPRequestHandler):
    """Repositories in memory."""

    files: dict[str, bytes]
    claimed_size: int | None

    def log_message(self, *args):
        pass

    def site(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, code, body=b"", **headers):
        self.send_response(code)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_json(self, data):
        self.answer(200, json.dumps(data).encode(), Content_Type="application/json")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/api/repos/create":
            self.answer_json({"url": f"{self.site()}/me/corridor", "name": "me/corridor"})
        elif "/preupload/" in self.path:
            names = [entry["path"] for entry in json.loads(body)["files"]]
            regular = [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]
            self.answer_json({"files": regular})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.answer_json({"commitUrl": f"{self.site()}/me/corridor/commit/{COMMIT}", "commitOid": COMMIT})
        else:
            self.answer_json({})  # checks of the page's header

    def do_GET(self):
        name = self.path.partition("?")[0].rpartition("/")[2]
        if not self.path.startswith("/me/corridor/resolve/"):
            error = {"X-Error-Code": "RepoNotFound"} if "/resolve/" in self.path else {}
            self.answer(404, b"{}", **error)
        elif name not in self.files:
            self.answer(404, b"{}", **{"X-Error-Code": "EntryNotFound"})
        else:
            content = self.files[name]
            tag = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X_Repo_Commit": COMMIT}
            size = {"Content_Length": str(self.claimed_size)} if self.claimed_size else {}
            self.answer(200, content, **tag, **{"Content-Type": "application/octet-stream"}, **size)

    do_HEAD = do_GET


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The client library looks for the Hub at our server."""
    from huggingface_hub import constants

    Hub.files, Hub.claimed_size = {}, None
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_" + "a" * 34)
    from huggingface_hub import hf_api

    monkeypatch.setattr(hf_api.api, "endpoint", endpoint)
    yield Hub
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def file(tmp_path):
    similarity = np.array([[1, 0.5, 0.2], [0.5, 1, 0.1], [0.2, 0.1, 1]], np.float32)
    masp.save_bundle(tmp_path / "b.safetensors", masp.Bundle(ACTIONS, similarity))
    return tmp_path / "b.safetensors"


def test_push_and_pull_a_repository(hub, file, tmp_path, capsys):
    out = tmp_path / "pulled.safetensors"
    assert main(["push", str(file), "me/corridor", "--note", "a note"]) == 0, capsys.readouterr().err
    assert set(hub.files) == {"bundle.safetensors", "README.md"}
    assert "masp pull me/corridor" in hub.files["README.md"].decode()
    assert main(["pull", "me/corridor", "--out", str(out)]) == 0, capsys.readouterr().err
    bundle, original = masp.load_bundle(out), masp.load_bundle(file)
    np.testing.assert_array_equal(bundle.similarity, original.similarity)
    assert bundle.actions == ACTIONS and bundle.card.note == "a note"


def failing(arguments, code, match, capsys):
    assert main(arguments) == code
    error = capsys.readouterr().err
    assert match in error and error.count("\n") == 1, error


def test_what_a_repository_may_hold(hub, tmp_path, capsys, monkeypatch):
    out = str(tmp_path / "out.safetensors")
    failing(["pull", "me/corridor", "--out", out], 1, "the repository has no bundle.safetensors", capsys)
    failing(["pull", "me/other", "--out", out], 1, "there is no such repository", capsys)
    failing(["pull", "not a name", "--out", out], 2, "no name of a repository", capsys)
    hub.files["bundle.safetensors"] = b"\x80\x04pickled"
    failing(["pull", "me/corridor", "--out", out], 2, "not a bundle", capsys)
    monkeypatch.setattr(sharing, "MAX_BYTES", 5)
    failing(["pull", "me/corridor", "--out", out], 2, "a bundle has at most 5 bytes", capsys)
    assert not (tmp_path / "out.safetensors").exists()
