"""PgBouncer in front of a PostgreSQL server of the tests."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from hookline.clock import monotonic
from tests.support import debian
from tests.support.ports import accepts, free_port
from tests.support.postgres import SUPERUSER, Account, PostgresServer

# PgBouncer refuses settings that it does not track. Hookline works without them, with less suitable query plans.
IGNORED = (
    "jit,plan_cache_mode,default_transaction_isolation,idle_in_transaction_session_timeout,"
    "tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count,enable_seqscan,enable_bitmapscan"
)


class PgBouncer:
    """One PgBouncer process. `find` returns one that is not started, or None if the machine has no PgBouncer."""

    def __init__(
        self, program: Path, variables: dict[str, str], server: PostgresServer, mode: str, ignored: str
    ) -> None:
        self.port, self._program, self._variables = free_port(), program, variables
        self.url = f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None
        self._home = server.home / f"pgbouncer-{self.port}"
        self._home.mkdir(mode=0o777)
        Account().own(self._home)
        (self._home / "users.txt").write_text(f'"{SUPERUSER}" ""\n')
        (self._home / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nauth_type = trust\nauth_file = {self._home}/users.txt\npool_mode = {mode}\n"
            "max_client_conn = 500\ndefault_pool_size = 60\nserver_login_retry = 1\nunix_socket_dir =\n"
            f"ignore_startup_parameters = {ignored}\nlogfile = {self._home}/log\n"
        )

    @classmethod
    def find(
        cls, server: PostgresServer, mode: str, *, ignored: str = IGNORED, download: bool = False
    ) -> PgBouncer | None:
        found = debian.program("pgbouncer", "pgbouncer", "libevent-2.1-7", "libc-ares2", download=download)
        return cls(*found, server, mode, ignored) if found else None

    def start(self, patience: float = 60.0) -> None:
        """Start PgBouncer, and wait until it accepts connections."""
        self._process = subprocess.Popen(
            [self._program, "--quiet", self._home / "pgbouncer.ini"],
            env=os.environ | self._variables,
            cwd=self._home,
            **Account().arguments(),
        )
        deadline = monotonic() + patience
        while not accepts(self.port):
            if monotonic() > deadline:
                raise TimeoutError(f"PgBouncer does not accept connections\n{(self._home / 'log').read_text()}")
            time.sleep(0.02)  # another process starts: there is no event to wait for

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
