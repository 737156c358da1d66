"""Configuration from the environment. `SETTINGS` is the only list: parsing, errors and the documentation come from it.

`python -m hookline.config` prints the table of `docs/configuration.md`.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hookline.errors import ConfigError, HooklineError
from hookline.flow.guard import Guard, Network
from hookline.messages import DAY, LARGEST_PAYLOAD, MAX_PAYLOAD, MAX_SCHEDULE, POLICY_BOUNDS
from hookline.model import CircuitPolicy, RetryPolicy, Strategy
from hookline.observe.alerts.rules import Thresholds
from hookline.observe.alerts.words import Channels
from hookline.observe.labels import EndpointLabels
from hookline.parsers import (
    Parser,
    choice,
    color,
    database_url,
    duration,
    durations,
    emails,
    existing_file,
    flag,
    hook_url,
    host_name,
    integer,
    jwt_secret,
    metrics_token,
    networks,
    number,
    or_off,
    origins,
    outbox_urls,
    part,
    percentage,
    same_database,
    secret_keys,
    servers,
    share,
    size,
    smtp_url,
    span,
    sqlite_path,
    title,
    volume,
    web_url,
)
from hookline.store.base import StoreOptions

PREFIX = "HOOKLINE_"
TEST_PREFIX = "HOOKLINE_TEST_"  # for the test suite; not ours to judge
LEASE_MARGIN = 10.0  # seconds that a lease must outlive the request: a short wait before it, and the recording after it


class Config(Struct, frozen=True, kw_only=True):
    """What one process was told. Durations are seconds, sizes are bytes."""

    database_url: str
    outbox_urls: tuple[str, ...]  # applications' own databases
    outbox_poll: float
    host: str
    port: int
    public_url: str | None
    portal_origins: tuple[str, ...]
    portal_name: str
    portal_color: str | None
    portal_logo: str | None
    rate_limit: float  # 0: none
    rate_limit_organization: float
    access_log: str
    jwt_secret: str
    secret_keys: tuple[str, ...]  # the first one seals, all of them open
    allow_nets: tuple[Network, ...]
    request_timeout: float
    connect_timeout: float
    retry_strategy: Strategy
    retry_base: float
    retry_factor: float
    retry_cap: float
    retry_max_attempts: int
    retry_max_age: float
    retry_schedule: tuple[float, ...]
    retry_after_cap: float
    circuit_threshold: int
    circuit_spread: float
    circuit_cooldown: float
    circuit_cooldown_cap: float
    concurrency: int
    lane_share: int  # slots that one lane may hold
    application_share: float  # part of them that one application may hold alone
    lease: float
    poll_interval: float
    shutdown_timeout: float
    shutdown_delay: float
    pause_dead_per_day: int
    disable_after: float
    response_body_limit: int
    max_payload: int
    max_batch: int
    retention_days: int
    dead_retention_days: int
    audit_retention_days: int
    idempotency_window: float
    pool_size: int
    auto_migrate: bool
    dns_servers: tuple[str, ...]
    ca_bundle: str | None
    log_format: str
    log_level: str
    alert_backlog: int
    alert_backlog_growing: float
    alert_latency: float
    alert_dead_letters: int
    alert_dead_letters_critical: int
    alert_dead_letters_growing: float
    alert_retries: float
    alert_endpoint: float
    alert_endpoint_for: float
    alert_circuits: bool
    alert_last_attempts: int
    alert_outbox_lag: float
    alert_leases: int
    alert_webhook_url: str | None
    alert_slack_url: str | None
    alert_email: tuple[str, ...]
    alert_email_from: tuple[str, ...]  # one, or none
    smtp_url: str | None
    log_attempts: str
    log_payloads: bool
    metrics_port: int  # 0: that of the API
    metrics_token: str | None
    metrics_endpoints: EndpointLabels
    metrics_event_types: int

    @property
    def retry(self) -> RetryPolicy:
        return RetryPolicy(
            strategy=self.retry_strategy,
            base=self.retry_base,
            factor=self.retry_factor,
            cap=self.retry_cap,
            max_attempts=self.retry_max_attempts,
            max_age=self.retry_max_age,
            schedule=self.retry_schedule,
            retry_after_cap=self.retry_after_cap,
        )

    @property
    def circuit(self) -> CircuitPolicy:
        return CircuitPolicy(
            threshold=self.circuit_threshold,
            spread=self.circuit_spread,
            cooldown=self.circuit_cooldown,
            cooldown_cap=self.circuit_cooldown_cap,
        )

    @property
    def thresholds(self) -> Thresholds:
        given = {name: getattr(self, f"alert_{name}") for name in Thresholds.__struct_fields__}
        return Thresholds(**given)

    @property
    def channels(self) -> Channels:
        return Channels(
            webhook_url=self.alert_webhook_url,
            slack_url=self.alert_slack_url,
            emails=self.alert_email,
            email_from=next(iter((*self.alert_email_from, *self.alert_email)), ""),
            smtp_url=self.smtp_url,
            public_url=self.public_url,
        )

    @property
    def database_file(self) -> Path | None:
        """Of SQLite; None on PostgreSQL."""
        return sqlite_path(self.database_url)

    def guard(self) -> Guard:
        return Guard(self.allow_nets)

    def store_options(self) -> StoreOptions:
        return StoreOptions(
            retry=self.retry,
            circuit=self.circuit,
            lease=self.lease,
            retention_days=self.retention_days,
            dead_retention_days=self.dead_retention_days,
            audit_retention_days=self.audit_retention_days,
            idempotency_hours=self.idempotency_window / 3600,
            max_payload=self.max_payload,
            outbox_poll=self.outbox_poll,
            pool_size=self.pool_size,
        )

    def __repr__(self) -> str:
        hidden = {
            "jwt_secret": "'…'",
            "secret_keys": "'…'",
            "metrics_token": "'…'",
            "alert_webhook_url": "'…'",
            "alert_slack_url": "'…'",
            "smtp_url": "'…'",
            "database_url": repr(shown_url(self.database_url)),
            "outbox_urls": repr(tuple(map(shown_url, self.outbox_urls))),
        }
        fields = (f"{name}={hidden.get(name) or repr(getattr(self, name))}" for name in self.__struct_fields__)
        return f"Config({', '.join(fields)})"


_PLAIN_URL = re.compile(r"(postgres(?:ql)?://)(?:[^@/?#]*@)?([\w.:,\[\]-]*(?:/[\w-]*)?)(?:\?[^@]*)?", re.A)


def shown_url(url: str) -> str:
    """A database URL for people, without user, password and options. One that could be read in two ways is not shown."""
    if sqlite_path(url) is not None:
        return url
    plain = _PLAIN_URL.fullmatch(url)
    return plain[1] + plain[2] if plain else "postgresql://…"


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Setting(Struct, frozen=True):
    field: str  # of `Config`
    parse: Parser
    default: str  # as one would write it; empty: not set
    help: str
    name: str = ""  # of the variable, without the prefix, where it is not the field's
    secret: bool = False  # its value is in no error

    @property
    def variable(self) -> str:
        return PREFIX + (self.name or self.field.upper())


def _policy_duration(field: str) -> Parser:
    return duration(*POLICY_BOUNDS[field])


_policy_durations = durations(*POLICY_BOUNDS["schedule"], MAX_SCHEDULE)
_strategy_name = choice(*Strategy)


def strategy(text: str) -> Strategy:
    return Strategy(_strategy_name(text))


_endpoint_labels = choice(*EndpointLabels)


def endpoint_labels(text: str) -> EndpointLabels:
    return EndpointLabels(_endpoint_labels(text))


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "database_url",
        database_url,
        "sqlite:///hookline.db",
        "Where everything is kept: `sqlite:///file.db` or `postgresql://user:password@host/database`.",
        secret=True,
    ),
    Setting(
        "outbox_urls",
        outbox_urls,
        "",
        "Databases of applications whose outboxes are relayed too, by commas: `sqlite:////srv/shop/shop.db` or `postgresql://...`.",
        secret=True,
    ),
    Setting(
        "outbox_poll",
        duration(0.01, 1),
        "40ms",
        "How often the outbox of a PostgreSQL database is looked at, woken or not; at most 1s.",
    ),
    Setting("host", host_name, "127.0.0.1", "Address that the HTTP server listens on."),
    Setting("port", integer(1, 65535), "8071", "Port that the HTTP server listens on."),
    Setting(
        "public_url",
        web_url,
        "",
        "Where browsers reach this server, for links to the portal; else as the API was called.",
    ),
    Setting(
        "portal_origins",
        origins,
        "",
        "Sites that may show the portal in a frame, and whose scripts may call the API (CORS) with an application's token: "
        "`https://portal.example.com`, by commas.",
    ),
    Setting("portal_name", title(60), "Hookline", "What the portal is called."),
    Setting(
        "portal_color",
        color,
        "",
        "Colour of its links and buttons: `#1a73e8`. Darker in the light theme and lighter in the dark one where it could not "
        "be read.",
    ),
    Setting(
        "portal_logo", existing_file, "", "A picture for its top: a PNG, SVG, JPEG or WebP file of at most 256 KiB."
    ),
    Setting(
        "rate_limit",
        number(0, 1_000_000),
        "0",
        "Requests a second that one token or API key may make of one process; 0: no limit.",
    ),
    Setting("rate_limit_organization", number(0, 1_000_000), "0", "Likewise, of all of an organization's together."),
    Setting(
        "access_log",
        choice("off", "debug", "info"),
        "debug",
        "Level of the line that is logged for each request: `debug`, `info` or `off`.",
    ),
    Setting(
        "jwt_secret",
        jwt_secret,
        "",
        "Signs API tokens; at least 32 characters. Required on PostgreSQL; made on the first start on SQLite.",
        secret=True,
    ),
    Setting(
        "secret_keys",
        secret_keys,
        "",
        "Keys that encrypt endpoint secrets and headers at rest, separated by commas: the first one seals, all of them "
        "open. Required on PostgreSQL; made on the first start on SQLite.",
        name="SECRET_KEY",
        secret=True,
    ),
    Setting("allow_nets", networks, "", "Networks that webhooks may go to although they are not public, by commas."),
    Setting(
        "request_timeout", duration(0.1, 600), "30s", "Deadline of one attempt, from connect to the end of the body."
    ),
    Setting(
        "connect_timeout", duration(0.05, 600), "10s", "Deadline of connect and TLS; never longer than the attempt's."
    ),
    Setting("retry_strategy", strategy, "full_jitter", "`full_jitter`, `decorrelated` or `fixed`."),
    Setting("retry_base", _policy_duration("base"), "1s", "The first retry waits between 0 and this (full jitter)."),
    Setting(
        "retry_factor", number(*POLICY_BOUNDS["factor"]), "3", "Each further retry may wait this many times longer ..."
    ),
    Setting("retry_cap", _policy_duration("cap"), "6h", "... up to this."),
    Setting("retry_max_attempts", integer(1, 100), "12", "Attempts of one delivery before it becomes a dead letter."),
    Setting("retry_max_age", _policy_duration("max_age"), "24h", "Time budget of one delivery, likewise."),
    Setting(
        "retry_schedule", _policy_durations, "", "Delays of the `fixed` strategy: `5s,5m,30m,2h`; the last one repeats."
    ),
    Setting(
        "retry_after_cap", _policy_duration("retry_after_cap"), "1h", "The longest `Retry-After` that is honoured."
    ),
    Setting("circuit_threshold", integer(1, 1_000_000), "5", "Failures in a row that open an endpoint's circuit ..."),
    Setting("circuit_spread", duration(0, 3600), "1s", "... when first and last are at least this far apart."),
    Setting("circuit_cooldown", duration(0.1, DAY), "60s", "To the first probe; doubles with each one that fails ..."),
    Setting("circuit_cooldown_cap", duration(0.1, 7 * DAY), "1h", "... up to this."),
    Setting("concurrency", integer(1, 10_000), "512", "Requests in flight per worker process."),
    Setting(
        "lane_share",
        share,
        "0.25",
        "How much of them one endpoint may hold: a part (`0.25`, `25%`) or a number (`64`).",
    ),
    Setting(
        "application_share",
        part,
        "0.75",
        "How much of them one application may hold while no other wants any; several leave room for the next. `1`: no limit.",
    ),
    Setting(
        "lease", duration(5, 3600), "60s", "How long a worker owns a claim; at least 10s more than the request timeout."
    ),
    Setting("poll_interval", duration(0.01, 60), "1s", "The longest a worker sleeps without looking for work."),
    Setting(
        "shutdown_timeout",
        duration(0, 3600),
        "25s",
        "Time to finish what is in flight when stopped; the rest is released.",
    ),
    Setting(
        "shutdown_delay",
        duration(0, 600),
        "0s",
        "Time between the signal to stop, from which on `/health/ready` says no, and the end of the HTTP server.",
    ),
    Setting(
        "pause_dead_per_day", integer(1, 10**9), "100", "More dead letters than this in a day pause their endpoint."
    ),
    Setting(
        "disable_after", duration(60, 3650 * DAY), "5d", "An endpoint that fails steadily for this long is disabled."
    ),
    Setting("response_body_limit", size(0, 64 * 1024), "16KiB", "How much of a response body is kept; at most 64KiB."),
    Setting("max_payload", size(1, LARGEST_PAYLOAD), volume(MAX_PAYLOAD), "The largest payload that is accepted."),
    Setting("max_batch", size(64 * 1024, 1024**3), "16MiB", "The largest request body of a batch of messages."),
    Setting("retention_days", integer(1, 3650), "30", "Days that finished messages, deliveries and attempts are kept."),
    Setting("dead_retention_days", integer(1, 3650), "30", "Days that dead letters are kept."),
    Setting("audit_retention_days", integer(1, 3650), "365", "Days that the audit log is kept."),
    Setting("idempotency_window", duration(60, 30 * DAY), "24h", "How long an idempotency key is remembered."),
    Setting("pool_size", integer(2, 1000), "10", "PostgreSQL connections per process."),
    Setting(
        "auto_migrate", flag, "true", "Whether `serve` and `worker` bring the database up to date when they start."
    ),
    Setting("dns_servers", servers, "", "Resolvers to ask instead of the system's: `9.9.9.9,[2620:fe::fe]:53`."),
    Setting("ca_bundle", existing_file, "", "A PEM file of authorities to trust instead of the system's or certifi's."),
    Setting("log_format", choice("human", "json"), "human", "`human` or `json`."),
    Setting("log_level", choice("debug", "info", "warning", "error"), "info", "`debug`, `info`, `warning` or `error`."),
    Setting(
        "log_attempts",
        choice("all", "failures", "off"),
        "all",
        "Which attempts have a line in the log, at `info`: `all`, `failures` or `off`.",
    ),
    Setting(
        "log_payloads",
        flag,
        "false",
        "Whether these lines have the beginning of what was sent and of what was answered, which may be anybody's secret.",
    ),
    Setting(
        "metrics_port",
        integer(0, 65535),
        "0",
        "A port of its own for `/metrics` and `/health`, for `worker` and `relay` too; 0: `/metrics` is on the API's.",
    ),
    Setting(
        "metrics_token",
        metrics_token,
        "",
        "To be presented to read `/metrics`. Without it they are open on a port of their own, and to this machine on the API's.",
        secret=True,
    ),
    Setting(
        "metrics_endpoints",
        endpoint_labels,
        "off",
        "Whether `/metrics` names the 20 endpoints that failed most: `off`, `top` (by id) or `hashed`.",
    ),
    Setting(
        "metrics_event_types",
        integer(0, 1000),
        "50",
        "How many event types `/metrics` tells apart; the rest are `other`.",
    ),
    Setting(
        "alert_backlog",
        or_off(integer(1, 10**9)),
        "1000",
        "An alert fires when more deliveries than this are due and not sent. This and the others: `off` to never.",
    ),
    Setting(
        "alert_backlog_growing",
        or_off(duration(180, 3600)),
        "5m",
        "... when that number has grown for so long, and by more than 100.",
    ),
    Setting(
        "alert_latency",
        or_off(duration(0.01, DAY)),
        "60s",
        "... when 5 % of the first attempts of five minutes begin later than this.",
    ),
    Setting("alert_dead_letters", or_off(integer(1, 10**9)), "10", "... when more dead letters are unresolved."),
    Setting(
        "alert_dead_letters_critical", or_off(integer(1, 10**9)), "100", "... likewise; the alert is critical then."
    ),
    Setting(
        "alert_dead_letters_growing",
        or_off(number(1, 1000)),
        "3",
        "... when so many times as many deliveries as usual died within an hour, and more than 10.",
    ),
    Setting(
        "alert_retries", or_off(percentage), "50%", "... when more than this part of the retries of 15 minutes failed."
    ),
    Setting(
        "alert_endpoint",
        or_off(percentage),
        "50%",
        "... when more than this part of one endpoint's attempts failed ...",
    ),
    Setting("alert_endpoint_for", duration(180, 2700), "15m", "... for so long."),
    Setting("alert_circuits", flag, "on", "... when a circuit opens."),
    Setting(
        "alert_last_attempts",
        or_off(integer(1, 10**9)),
        "20",
        "... when more deliveries than this came to their last attempt within 15 minutes.",
    ),
    Setting("alert_outbox_lag", or_off(duration(1, DAY)), "60s", "... when an outbox row waits for longer."),
    Setting(
        "alert_leases", or_off(integer(1, 10**9)), "10", "... when more leases than this ran out within 15 minutes."
    ),
    Setting(
        "alert_webhook_url",
        hook_url,
        "",
        "Where alerts are delivered to, signed (`hookline alerts secret`), with retries and dead letters as any webhook.",
        secret=True,
    ),
    Setting(
        "alert_slack_url",
        hook_url,
        "",
        "Likewise, in the form that Slack's incoming webhooks and their kin take.",
        secret=True,
    ),
    Setting("alert_email", emails, "", "Who gets alerts by e-mail, by commas; needs `HOOKLINE_SMTP_URL`."),
    Setting("alert_email_from", emails, "", "Whom these come from; else the first of those who get them."),
    Setting(
        "smtp_url",
        smtp_url,
        "",
        "The mail server: `smtp://user:password@host:587` (STARTTLS) or `smtps://user:password@host`.",
        secret=True,
    ),
)

# A service named `hookline` makes Kubernetes (and Docker's links) set HOOKLINE_PORT=tcp://10.0.0.7:8071 and more of the kind.
_INJECTED_NAME = re.compile(r"HOOKLINE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)", re.A)
_INJECTED_VALUE = re.compile(r"(tcp|udp|sctp)://.*")


# ── loading ───────────────────────────────────────────────────────────────────────────────────────────────────────


def load(environ: Mapping[str, str]) -> Config:
    """The configuration of this process. On SQLite, secrets that are not given come from a file beside the database."""
    config = parse(environ)
    if config.jwt_secret and config.secret_keys:
        return config
    if config.database_file is None:
        missing = "HOOKLINE_SECRET_KEY" if config.jwt_secret else "HOOKLINE_JWT_SECRET"
        raise ConfigError(f"{missing}: required on PostgreSQL, the same for every process (`openssl rand -base64 32`)")
    return _with_keys(config, config.database_file)


def parse(environ: Mapping[str, str]) -> Config:
    """What the variables say, checked; nothing is read or written. Secrets may be missing still."""
    given = {name: value.strip() for name, value in environ.items() if _is_ours(name, value)}
    _refuse_unknown(given)
    values = {setting.field: _value(setting, given.get(setting.variable, "")) for setting in SETTINGS}
    values["connect_timeout"] = min(values["connect_timeout"], values["request_timeout"])
    values["lane_share"] = _slots(values["lane_share"], values["concurrency"])
    config = Config(**values)
    _check_together(config)
    return config


def _is_ours(name: str, value: str) -> bool:
    if not name.startswith(PREFIX) or name.startswith(TEST_PREFIX) or _INJECTED_NAME.fullmatch(name):
        return False
    return not (name.endswith("_PORT") and _INJECTED_VALUE.fullmatch(value))


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = [setting.variable for setting in SETTINGS]
    for name in sorted(given):
        if name not in known:
            longer = [one for one in known if one.startswith(f"{name}_")]
            near = longer or difflib.get_close_matches(name, known, n=1, cutoff=0.75)
            raise ConfigError(f"{name}: unknown" + (f"; did you mean {near[0]}?" if near else ""))


def _value(setting: Setting, text: str) -> Any:
    try:
        return setting.parse(text or setting.default)
    except ValueError as takes:
        shown = "" if setting.secret else f", not {text if len(text) <= 60 else text[:60] + '…'!r}"
        raise ConfigError(f"{setting.variable}: takes {takes}{shown}") from None


def _slots(part: float, concurrency: int) -> int:
    slots = part if isinstance(part, int) else math.ceil(part * concurrency)
    return max(1, min(slots, concurrency))


def _check_together(config: Config) -> None:
    if config.lease < config.request_timeout + LEASE_MARGIN:
        least = span(config.request_timeout + LEASE_MARGIN)
        raise ConfigError(
            f"HOOKLINE_LEASE: {span(config.lease)} is too short for a request timeout of "
            f"{span(config.request_timeout)}; at least {least}"
        )
    if config.metrics_port == config.port:
        raise ConfigError("HOOKLINE_METRICS_PORT: is the API's own; leave it out to have `/metrics` there")
    _check_alerts(config)
    if config.retry_cap < config.retry_base:
        raise ConfigError(f"HOOKLINE_RETRY_CAP: {span(config.retry_cap)} is less than HOOKLINE_RETRY_BASE")
    if config.circuit_cooldown_cap < config.circuit_cooldown:
        cap = span(config.circuit_cooldown_cap)
        raise ConfigError(f"HOOKLINE_CIRCUIT_COOLDOWN_CAP: {cap} is less than HOOKLINE_CIRCUIT_COOLDOWN")
    if any(same_database(url, config.database_url) for url in config.outbox_urls):
        raise ConfigError(
            "HOOKLINE_OUTBOX_URLS: has Hookline's own database, whose outbox is always relayed; name only applications' own"
        )
    if (config.retry_strategy == Strategy.FIXED) != bool(config.retry_schedule):
        raise ConfigError("HOOKLINE_RETRY_SCHEDULE: goes together with HOOKLINE_RETRY_STRATEGY=fixed")


def _check_alerts(config: Config) -> None:
    for name in ("alert_webhook_url", "alert_slack_url"):
        url = getattr(config, name)
        try:
            if url is not None:
                config.guard().check_url(url)
        except HooklineError as error:
            raise ConfigError(f"HOOKLINE_{name.upper()}: {error}") from None
    if bool(config.alert_email) != bool(config.smtp_url):
        raise ConfigError("HOOKLINE_ALERT_EMAIL: goes together with HOOKLINE_SMTP_URL")
    if len(config.alert_email_from) > 1:
        raise ConfigError("HOOKLINE_ALERT_EMAIL_FROM: takes one address")


# ── generated keys ────────────────────────────────────────────────────────────────────────────────────────────────


def _with_keys(config: Config, database: Path) -> Config:
    path = Path(f"{database}.keys")
    if not database.parent.is_dir():
        raise ConfigError(f"HOOKLINE_DATABASE_URL: the directory {database.parent} does not exist")
    try:
        if not path.exists():
            _refuse_orphan(database, path)
            _create_keys(path)
        kept = _read_keys(path)
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; set HOOKLINE_JWT_SECRET and HOOKLINE_SECRET_KEY instead"
        ) from None
    return replace(
        config, jwt_secret=config.jwt_secret or kept.jwt_secret, secret_keys=config.secret_keys or kept.secret_keys
    )


def _refuse_orphan(database: Path, path: Path) -> None:
    """New keys would open none of the secrets that this database holds."""
    if database.exists() and database.stat().st_size > 0:
        raise ConfigError(
            f"{path}: missing, but {database.name} has data; restore it, or set HOOKLINE_JWT_SECRET and HOOKLINE_SECRET_KEY"
        )


def _create_keys(path: Path) -> None:
    """Complete or not at all, and never over another's: the link fails if a second process was quicker; its file counts."""
    from hookline.vault import new_key

    lines = f"HOOKLINE_JWT_SECRET={secrets.token_urlsafe(48)}\nHOOKLINE_SECRET_KEY={new_key()}\n"
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_keys(path: Path) -> Config:
    # Only "others" are looked at: Kubernetes gives the files of a volume to the pod's group when it mounts it.
    if path.stat().st_mode & 0o007:
        raise ConfigError(f"{path}: can be read by others; run chmod 600 on it")
    pairs = (line.partition("=") for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    try:
        kept = parse({name: value for name, _, value in pairs})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not (kept.jwt_secret and kept.secret_keys):
        raise ConfigError(f"{path}: must have HOOKLINE_JWT_SECRET and HOOKLINE_SECRET_KEY")
    return kept


# ── documentation ─────────────────────────────────────────────────────────────────────────────────────────────────


def table() -> str:
    """The settings in Markdown."""
    rows = [f"| `{s.variable}` | {f'`{s.default}`' if s.default else ''} | {s.help} |" for s in SETTINGS]
    return "\n".join(["| variable | default | what it does |", "|---|---|---|", *rows])


def written(setting: Setting, value: Any) -> str:
    """A value as one would write it in the variable: the first of several ways that is read as the same."""
    for text in _ways(setting, value):
        try:
            if setting.parse(text) == value:
                return text
        except ValueError:
            continue
    return str(value)


def _ways(setting: Setting, value: Any) -> Iterator[str]:
    yield setting.default
    if isinstance(value, bool):
        yield "on" if value else "off"
    elif isinstance(value, int | float):
        yield from (() if value else ("off",))
        yield from (
            span(value),
            volume(round(value)),
            f"{value * 100:g}%" if 0 < value < 1 else f"{value:g}",
            f"{value}",
        )
    elif isinstance(value, tuple):
        yield ",".join(span(each) if isinstance(each, float) else str(each) for each in value)


if __name__ == "__main__":
    print(table())
