"""Look at runs while they train: the page of 'masp report', which follows them by itself.

  masp watch runs/planted-grid-masp-0
  masp watch runs                           all runs in a folder side by side, new ones too
  masp watch runs --port 8321               a port of your choice, for a tunnel: ssh -L 8321:localhost:8321 HOST

It only reads, so it can be closed (Ctrl-C) and opened again at any time.
"""

from __future__ import annotations

import argparse
import signal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dirs", nargs="+", metavar="RUN_DIR", help="run directories, or folders of them")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port to listen on (default: a free one)")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument("--remote", action="store_true", help="allow a --host that other machines can reach")


def run(args: argparse.Namespace) -> int:
    from masp.report.page.live import LiveContent, LiveServer

    with LiveServer(LiveContent(args.run_dirs), args.host, args.port, args.remote) as server:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
        print(f"open {server.url}\nCtrl-C ends it; training goes on, and nothing is lost", flush=True)
        server.serve_forever()
    return 0
